"""The parts that all commands share: the way in and out, options, printing, refusals and completion.

`entry` imports the file of the command that runs, from `perfgate/commands/`. At start-up only click is imported.
`check`, `compare` and `run` have their options here.
"""
