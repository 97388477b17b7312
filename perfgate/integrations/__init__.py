"""Recording from frameworks: one module for each, which imports its framework when it is used.

`lightning` and `transformers` are callbacks that own a recording, `torch_profiler` is a handler that adds to one, and
`pytest_plugin` gives tests a fixture. None is needed to judge a run, and none is imported by another part of perfgate.
"""
