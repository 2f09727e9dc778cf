"""The layers of a network: record them, choose among them, and learn from several of them at once."""
