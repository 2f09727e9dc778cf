"""Ensemble pruning: keep the few members that predict as well as all of them together."""
