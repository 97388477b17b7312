"""The version, in a file that imports nothing: the package imports it, and so do rooms that write it into files."""

__version__ = "0.1.0"
