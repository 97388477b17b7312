"""Hugging Face: the Trainer's state and its metrics table."""
