"""Kernel ridge machines: regression and classification in one pass, with everything chosen by held-out errors."""

from krepes.machines.cells.choosing import Cells
from krepes.machines.kernel_ridge.estimators import KernelRidgeClassifier, KernelRidgeRegressor

__all__ = ["Cells", "KernelRidgeClassifier", "KernelRidgeRegressor"]
