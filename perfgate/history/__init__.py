"""What every run of main measured, and where that changed: `perfgate history`.

| module | contains |
|---|---|
| `records` | one remembered run: the numbers of its metrics, without samples |
| `files` | the files of one run and of one month |
| `store` | add, read and compact these files, below `_history` of the baselines |
| `commits` | the order of commits, as git knows it |
| `approvals` | who approved which level |
| `series` | one metric in order, with its change points |
| `load` | the whole history of a store: `perfgate.load_history` |
| `backfill` | which commits to measure, so that a change point has one commit |
| `imports`, `exports` | one file for each format of other tools |

A check without history never comes here.
"""
