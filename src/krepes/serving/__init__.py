"""A small HTTP server for one model: `krepes serve`."""
