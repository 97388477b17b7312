"""What each command does: read, call the stages, hand back what is to be written. No click, no print.

`inputs` reads runs, rules and baselines, `outputs` writes reports; each other module is one command or group.
"""
