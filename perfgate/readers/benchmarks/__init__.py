"""Benchmark tools, one file for each: JSON, CSV or printed text."""
