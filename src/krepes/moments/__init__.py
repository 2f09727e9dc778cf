"""Second moments of features."""

from krepes.moments.moments import Moments

__all__ = ["Moments"]
