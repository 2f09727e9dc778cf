"""Feature spaces: landmarks, the features they give, and readers of rows in them."""

from krepes.features.fit_data import FitData, RowReader
from krepes.features.moment_pass import MomentPass
from krepes.features.space import FeatureSpace

__all__ = ["FeatureSpace", "FitData", "MomentPass", "RowReader"]
