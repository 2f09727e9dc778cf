"""Pre-images: rows from their representations, with an estimate of the error of each."""

from krepes.preimages.fixed_point import fixed_point
from krepes.preimages.inverse import ErrorEstimate

__all__ = ["ErrorEstimate", "fixed_point"]
