"""The parts that all commands share: the way in and out, options, printing, refusals and completion.

`entry` imports the file of the command that runs, from `perfgate/commands/`. At start-up only click is imported.
`shared` has the options that several commands take.
"""
