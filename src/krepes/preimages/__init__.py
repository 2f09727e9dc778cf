"""Pre-images: rows from their representations, with an estimate of the error of each."""

from krepes.preimages.error_estimate import ErrorEstimate
from krepes.preimages.fixed_point import fixed_point

__all__ = ["ErrorEstimate", "fixed_point"]
