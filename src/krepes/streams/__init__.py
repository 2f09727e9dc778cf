"""Streams: the model of the last rows, and whether rows have changed."""

from krepes.streams.window import Window

__all__ = ["Window"]
