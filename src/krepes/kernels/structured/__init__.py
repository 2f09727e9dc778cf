"""Kernels on rows that are more than a vector: groups of columns, series, histograms, kernel matrices."""
