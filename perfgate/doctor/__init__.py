"""Examine a machine: its noise floor for known loads and for a command, what disturbs it, and what would help.

`loads` measures known programs and `command` the user's; both are unchanged programs, so that every difference is
noise. Both turn their times into noise floors, and `command` compares these with the rules. `disturbances` reads what
the system and NVML show.
"""
