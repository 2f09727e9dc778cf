"""Tangent features of networks: per-sample gradients by layer, exact or sketched."""
