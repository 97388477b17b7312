"""Benchmark tools that write JSON, one file for each."""
