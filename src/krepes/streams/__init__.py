"""Streams: the model of the last rows, whether rows have changed, and folders that files arrive in."""

from krepes.streams.drift import DriftMonitor, DriftReading
from krepes.streams.follow import Follower
from krepes.streams.window import Window

__all__ = ["DriftMonitor", "DriftReading", "Follower", "Window"]
