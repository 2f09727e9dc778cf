"""Kernel autoencoders: rows as points of a sphere, and back."""

from krepes.autoencoder.estimator import KernelAutoencoder

__all__ = ["KernelAutoencoder"]
