"""Strict documents: JSON and YAML that know where each value is."""
