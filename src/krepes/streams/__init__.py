"""Streams: windows, drift, folders that files arrive in."""
