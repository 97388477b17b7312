"""The causes of a change between two sides of traces, or of timers. Pure functions from call trees to causes.

    call trees -> merge -> align -> Alignment -> edits, slowdowns, ranks, memory -> Finding -> group -> CauseReport

| module | contents |
|---|---|
| `merged` | one tree of several: the ranks of a run, or all runs |
| `align` | one tree of all runs and ranks of both sides |
| `noise` | how much a node's time varies without a cause |
| `edits` | calls that came, went, or were made more often |
| `slowdowns` | the same calls with other times |
| `paired` | the same as `noise` and `slowdowns` for pairs that took their steps by turns |
| `ranks` | one rank that is slow while others wait |
| `memory` | allocations at the peak |
| `sources` | the line of the program behind a cause |
| `tree_difference` | the call tree and the ranks of both sides, for pictures |
| `consequences` | the verdicts that follow from each cause |
| `trees_of_runs` | the trees of both sides: from their traces, or made from their metrics |
| `nesting`, `series_trees` | which timer runs inside which, and the trees that this makes |
| `table_trees` | the trees of tables of kernels, operators and calls |
| `series_noise`, `series_findings`, `series_ranks` | the same as above for trees from metrics, which have few nodes |
| `find` | all of these in order, grouped, and closed |
"""
