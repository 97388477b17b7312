"""Propose a mapping for a file of an unknown format: what `perfgate inspect --suggest` prints."""
