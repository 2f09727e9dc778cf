"""Ensemble pruning: keep the few members that predict as well as all of them together."""

from krepes.alignment.pruning.prune_ensemble import prune_ensemble

__all__ = ["prune_ensemble"]
