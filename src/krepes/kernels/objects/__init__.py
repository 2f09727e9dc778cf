"""Kernels on objects that are not rows of numbers: strings, texts, sets, graphs. One file per kernel."""
