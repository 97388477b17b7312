"""Examine a machine: its noise floor for known loads and for a command, what disturbs it, and what would help.

`loads` measures known programs, and `command` the user's program. Both run unchanged programs, so that every difference
is noise, and make noise floors of their times; `command` compares these with the rules. `disturbances` reads the state
of the system and of GPUs. `qualification` measures the figures that identify a machine.
"""
