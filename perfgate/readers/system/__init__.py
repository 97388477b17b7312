"""Tools that measure a machine or a process, not only a GPU."""
