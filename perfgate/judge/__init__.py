"""Rules against runs: the only place where outcomes are decided. Nothing here reads a file, a clock or the environment.

| module | does |
|---|---|
| `verdicts` | every rule of a case becomes verdicts: compile, decide, adjust, word |
| `case`, `subjects`, `derived`, `measure` | what is judged: runs, the metrics that a rule names, their statistics |
| `evidence`, `compile` | one clause about one metric becomes a question |
| `decisions`, `decide_limit`, `decide_change` | a question becomes a decision, by `judge_limit` or `judge_change` |
| `adjust` | the anchor, allowances, many metrics at once, and what users accept |
| `word`, `messages`, `explanation`, `details` | a decision becomes a verdict, with the parts and runs behind it |
| `acceptance` | the commands that accept the changes of all verdicts |
| `report` | verdicts become an outcome and an exit code |
| `pairs`, `breakdown` | runs that were made in pairs; the parts of a step |
"""
