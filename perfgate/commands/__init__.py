"""The commands, a file for each: its options above, below them the function that reads, calls the rooms and returns.

`perfgate.cli.entry` imports the file of the command that runs, and uses its `command`. A command with several parts has
files that begin with its name. `ledger`, `preparing`, `remembered`, `report_details` and `rule_changes` are not
commands: several commands share them.
"""
