"""Find the position at which the level changed in an ordered list, and choose the next measurement.

`posterior` computes the probability of each position, `choose` the next measurement, `search` is the loop, `ranges`
has the ordered things, and `session` keeps the measurements in a folder.
"""
