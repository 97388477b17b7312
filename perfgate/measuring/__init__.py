"""Measure programs: their processes, the turns of two of them, repeated runs, and pairs within one process."""
