"""Snapshots of torch's CUDA allocator: a pickle of plain data."""
