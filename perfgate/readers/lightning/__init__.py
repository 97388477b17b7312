"""Reports of Lightning's profilers."""
