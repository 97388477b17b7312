"""Recording from frameworks. A framework is imported with its own module here, or when that is used.

`lightning` and `transformers` are callbacks that own a recording, `torch_profiler` is a handler that adds to one, and
`pytest_plugin` gives tests a fixture. Judging needs none of them, and no other part of perfgate imports them.
"""
