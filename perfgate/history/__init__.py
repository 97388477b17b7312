"""The metrics of every run of main, and their changes: `perfgate history`.

| module | contains |
|---|---|
| `records` | one remembered run: the numbers of its metrics, without samples, and its file |
| `writing` | add measured and imported runs, and compact the files of a month into one |
| `files` | the files of runs and months |
| `store` | add and read these files, below `_history` of the baselines |
| `series` | one metric in order, with its change points |
| `load` | the whole history of a store, with commits, approvals and renames: `perfgate.load_history` |
| `noise` | the noise between runs, and the runs of a branch since its baseline, for the judge |
| `hosts` | the differences between the hosts of an environment |
| `events`, `event_panels` | the changes of several metrics that began together, as one event |
| `tickets` | the issues to open and close for events |
| `false_alarms` | how often a rule was red although nothing changed |
| `backfill` | which commits to measure, so that a change point has one commit |
| `imports`, `exports` | the formats and services of other tools |

The types are in `perfgate.core.remembered_runs` and `run_history`. A check without history never comes here.
"""
