"""Strict readers of JSON and YAML, with the position of every value."""
