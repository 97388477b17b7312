"""Examine a machine: its noise floor for known loads and for a command, what disturbs it, and what would help.

`loads` measures known programs and `command` the user's; both are unchanged programs, so that every difference is
noise. `floors` turns their times into noise floors, `disturbances` and `cards` read what the system and NVML show, and
`rule_needs` compares the floors with the rules.
"""
