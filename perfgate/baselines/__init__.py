"""Stored baselines: one file a run, in levels, kept apart by environment.

`files` is the form of one file, `identity` tells environments apart, `levels` orders the runs of an environment and
says which are current, and `stores` reads and writes them.
"""
