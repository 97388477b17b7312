"""Find the position at which the level changed in an ordered list, and choose the next measurement.

`measurements` is the regression behind the probabilities, `posterior` computes the probability of each position, and
`choose` chooses the next measurement. `search` is the loop, `ranges` has the ordered items (commits or others), and
`session` keeps the measurements in a folder.
"""
