"""Stored baselines: one file for each run, in levels, one folder for each environment.

`files` is the form of the files, `contents` decides what fits into one (with `condensed` and `stored_trees`), `places`
has their paths and environments, `levels` the history of an environment, `stores` reads and writes files, and
`repository` loads what `check` compares with. `approvals` and `candidates` change a store, and `listing` shows, checks
and prunes it. `ledger` records what rules answered on main.
"""
