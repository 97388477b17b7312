"""The causes of a change between two sides of traces, or of timers. Pure functions from call trees to causes.

    call trees -> merge -> align -> Alignment -> kinds, ranks -> Finding -> group -> CauseReport

| module | contents |
|---|---|
| `merged` | one tree of several: the ranks of a run, or all runs |
| `align` | one tree of all runs and ranks of both sides |
| `noise` | how much a node's time varies without a cause, in traces and in metrics |
| `kinds` | calls that came, went, were made more often or became slower; allocations at the peak |
| `recognised` | changes that one decision makes at many places, such as checkpointing |
| `host` | the speed of the host as a whole |
| `paired` | the same as `noise` and `kinds` for pairs that took their steps by turns |
| `ranks` | one rank that is slow while others wait; the call tree and the ranks of both sides, for pictures |
| `grouping` | the findings of one change as one; the time that a device idles because of it |
| `consequences` | the verdicts that follow from each cause |
| `nesting`, `series_trees` | which timer runs inside which, and the trees that this makes |
| `table_trees` | the trees of both sides: from their traces, or made from their metrics and tables |
| `trace_findings` | the findings of traces: all of the above, in order |
| `series_findings` | the findings of trees from metrics, which have few nodes |
| `find` | all of these in order, as a report: the causes, and the rest of the step's change |
"""
