"""Recording from frameworks. Each module imports only its own framework: at its import, or when it is used.

`lightning` and `transformers` are callbacks that own a recording, `torch_profiler` is a handler that adds to one, and
`pytest_plugin` gives tests a fixture. Judging needs none of them, and no other part of perfgate imports them.
"""
