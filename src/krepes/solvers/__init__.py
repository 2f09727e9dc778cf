"""Solvers: how (W, gamma) is found. Adding one is a file here and a line below."""

from krepes.solvers.full_batch import FullBatch
from krepes.solvers.moment_descent import MomentDescent
from krepes.solvers.sgd import SGD
from krepes.solvers.solver import WORK, Callback, ClosedForm, Solution, Solver, choose_solver

__all__ = [
    "SGD",
    "WORK",
    "Callback",
    "ClosedForm",
    "FullBatch",
    "MomentDescent",
    "Solution",
    "Solver",
    "choose_solver",
]
