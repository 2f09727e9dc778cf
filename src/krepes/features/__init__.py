"""Feature spaces: landmarks, the features they give, and readers of rows in them."""

from krepes.features.fit_data import FitData, RowReader
from krepes.features.kernel_choice import ChosenKernel
from krepes.features.moment_pass import MomentPass
from krepes.features.patch_learning import PatchMoments, learn_patches
from krepes.features.preparation import Run, Spec, opener_of, prepare
from krepes.features.space import FeatureSpace

__all__ = [
    "ChosenKernel",
    "FeatureSpace",
    "FitData",
    "MomentPass",
    "PatchMoments",
    "RowReader",
    "Run",
    "Spec",
    "learn_patches",
    "opener_of",
    "prepare",
]
