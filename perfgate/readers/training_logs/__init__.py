"""Logs of training programs that print one line for each step (or each few steps)."""
