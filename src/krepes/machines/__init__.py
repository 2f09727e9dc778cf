"""Kernel machines on features: ridge regression, Gaussian processes, novelty detection."""

from krepes.machines.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from krepes.machines.kernel_ridge import Cells, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.novelty import NoveltyDetector

__all__ = [
    "Cells",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "NoveltyDetector",
]
