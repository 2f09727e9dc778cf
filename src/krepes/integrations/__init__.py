"""Wrappers for tools that keep models: MLflow, skops."""
