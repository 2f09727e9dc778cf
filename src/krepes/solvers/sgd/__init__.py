"""Mini-batch training, and everything that only it uses."""

from krepes.solvers.sgd.sgd import SGD

__all__ = ["SGD"]
