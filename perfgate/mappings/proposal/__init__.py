"""Propose a mapping for a file of an unknown format. `perfgate inspect --suggest` prints it."""
