"""What is measured while a program runs, written so that perfgate reads it: `Recorder`.

`recorder` is what users call, `journal` the file, `form` its lines and the document that they become, `process` which
process of a job this is, `cuda` the clock of the GPU. Everything here runs inside somebody's training: it imports the
standard library alone, never synchronises, and what fails after the start is a warning.
"""
