"""The metrics of every run of main, and their changes: `perfgate history`.

| module | contains |
|---|---|
| `records` | what is remembered of one run: the numbers of its metrics, without samples |
| `remember` | measured runs as records |
| `files` | the files of one run and of one month |
| `store` | add, read and compact these files, below `_history` of the baselines |
| `commits` | the order of commits, as git knows it |
| `approvals` | who approved which level |
| `series` | one metric in order, with its change points |
| `renames` | metrics with a new name: joined or proposed |
| `load` | the whole history of a store: `perfgate.load_history` |
| `noise` | the noise between runs, for the judge |
| `since` | what a branch measured since its baseline, for the judge |
| `false_alarms` | how often a rule was red although nothing changed |
| `backfill` | which commits to measure, so that a change point has one commit |
| `imports`, `exports` | one file for each format of other tools |

The types are in `perfgate.core.remembered_runs` and `run_history`. A check without history never comes here.
"""
