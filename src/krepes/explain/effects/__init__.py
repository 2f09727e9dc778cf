"""What a single row of the training data has done to a model: exactly, and to first order."""
