"""What is written and read: files that are whole or not there, model files, states, checkpoints."""
