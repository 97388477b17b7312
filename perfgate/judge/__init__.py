"""Rules against runs: the only place where an outcome is decided.

`verdicts.judge` answers for a whole ruleset. `change.judge_change` and `limit.judge_limit` are the two decisions
themselves, on plain numbers; `policy` says what blocks. No module here reads a file, a clock or the environment.
"""
