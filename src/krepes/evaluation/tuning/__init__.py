"""The search for good parameters of a model, judged by a linear probe on a few labels."""
