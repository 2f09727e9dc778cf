"""Mini-batch training, and everything that only it uses."""

from krepes.solvers.sgd.solver import SGD

__all__ = ["SGD"]
