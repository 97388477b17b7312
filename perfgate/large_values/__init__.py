"""Values that are too many for memory, as arrays in temporary files that numpy's functions take."""
