"""Preconditioners of gradient steps. Adding one is a file here and a line below."""

from krepes.solvers.sgd.preconditioners.base import Preconditioner, Steps
from krepes.solvers.sgd.preconditioners.first_order import KernelPreconditioner, NoPreconditioner
from krepes.solvers.sgd.preconditioners.gauss_newton import GaussNewton

__all__ = ["GaussNewton", "KernelPreconditioner", "NoPreconditioner", "Preconditioner", "Steps"]
