"""Text that PyTorch prints: operator tables and measurements."""
