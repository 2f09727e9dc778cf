"""What a model has seen: sums, by which rows, groups and weights they were made, and what may be taken back."""

from krepes.tally.fit import Fit, total
from krepes.tally.tally import RowRanges, Tally

__all__ = ["Fit", "RowRanges", "Tally", "total"]
