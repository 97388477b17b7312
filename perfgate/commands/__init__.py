"""The commands: read, call the stages, and return what is to be written. No click, and nothing is printed.

Each module is a command or a group of commands, except `report_details` and `rule_changes` (parts of check).
"""
