"""Mini-batch training, and everything that only it uses."""

from krepes.solvers.sgd.gauss_newton import GaussNewton
from krepes.solvers.sgd.sgd import SGD
from krepes.solvers.sgd.steps import KernelPreconditioner, Preconditioner

__all__ = ["SGD", "GaussNewton", "KernelPreconditioner", "Preconditioner"]
