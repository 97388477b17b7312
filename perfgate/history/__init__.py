"""The metrics of every run of main, and their changes: `perfgate history`.

| module | contains |
|---|---|
| `records` | what is remembered of one run: the numbers of its metrics, without samples, and its file |
| `writing` | measured runs as records, and the files of a month as one |
| `files` | the files of runs and months |
| `store` | add and read these files, below `_history` of the baselines |
| `series` | one metric in order, with its change points |
| `load` | the whole history of a store, with commits, approvals and renames: `perfgate.load_history` |
| `noise` | the noise between runs, and the runs of a branch since its baseline, for the judge |
| `false_alarms` | how often a rule was red although nothing changed |
| `backfill` | which commits to measure, so that a change point has one commit |
| `imports`, `exports` | the formats and services of other tools |

The types are in `perfgate.core.remembered_runs` and `run_history`. A check without history never comes here.
"""
