"""Measure the machine while a program runs: clocks, power, and time lost to throttling, steal and pressure.

`sampler` is a process of its own beside the program. It reads sensors ten times a second (`linux`, `gpus`), makes one
value of each window of time (`channels`), and writes them as a results document beside the results of the run.
`perfgate.recorder.watch` starts and ends the process. Like the recorder, all of this imports only the standard library
and the libraries of the sensors.
"""
