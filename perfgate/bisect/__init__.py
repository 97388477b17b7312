"""Where the level changed in an ordered list: from measurements to the position, and what to measure next.

`posterior` computes the probability of each position, `choose` the next measurement, `search` is the loop, `ranges`
has the ordered things, and `session` keeps the measurements in a folder.
"""
