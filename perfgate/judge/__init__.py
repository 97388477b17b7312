"""Rules against runs: the only place where outcomes are decided. Nothing here reads a file, a clock or the environment.

A case is the rules with the runs of both sides. A clause is one demand of a rule, such as `within 5% of baseline`.

| module | does |
|---|---|
| `verdicts` | every rule of a case becomes verdicts: evidence, question, answer, words |
| `subjects`, `derived`, `measure` | the metrics that a rule names, their parts and their statistics |
| `stalls`, `utilization`, `largest_load` | marks of stalled steps, `mfu` and `hfu`, the largest load of a sweep |
| `evidence`, `presence`, `doubts/` | one clause about one metric: its runs, and what is absent or doubtful |
| `ask`, `exact_work`, `terms`, `question` | everything that can change an answer becomes a frozen question |
| `decide/` | questions become answers; nothing else settles an outcome |
| `verdict`, `sentences`, `explanation`, `details` | an answer becomes a verdict, with the parts and runs behind it |
| `plain` | the same for plain numbers: `judge_change`, `judge_limit` |
| `report` | verdicts become an outcome and an exit code |
| `pairs`, `factors` | runs that were made in pairs; the effects of code and environment on them |
| `breakdown`, `machine_channels`, `series_summary` | what reports and `inspect` show beside verdicts |
"""
