"""Second moments of features, and the pass that sums them."""

from krepes.moments.moment_pass import MomentPass
from krepes.moments.moments import Moments

__all__ = ["MomentPass", "Moments"]
