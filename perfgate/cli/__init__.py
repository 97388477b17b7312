"""The command line: parse, call a command, write, and choose the exit code.

`entry` has the way in and out, `shared` what commands share, and each other module one command. Only click is imported
at start-up; everything else is imported when a command runs.
"""
