"""The commands, each in a file: its options, and below them the function that does the work, without click or printing.

`perfgate.cli.entry` imports the file of the command that runs, and uses its `command`. A command with several parts has
files that begin with its name. `ledger`, `preparing`, `remembered`, `report_details` and `rule_changes` are not
commands: several commands share them. `run_results` is a part of `init`. The recorder starts `work_of_trace` as a
process.
"""
