"""Sources of arrays: in memory, in NumPy's files, and memory maps."""
