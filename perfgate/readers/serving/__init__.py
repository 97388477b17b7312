"""Benchmarks of inference servers, apart from the JSON of vLLM."""
