"""Preconditioners of gradient steps. Adding one is a file here and a line below."""

from krepes.solvers.sgd.preconditioners.first_order import KernelPreconditioner, NoPreconditioner
from krepes.solvers.sgd.preconditioners.gauss_newton import GaussNewton
from krepes.solvers.sgd.preconditioners.preconditioner import Preconditioner, Steps

__all__ = ["GaussNewton", "KernelPreconditioner", "NoPreconditioner", "Preconditioner", "Steps"]
