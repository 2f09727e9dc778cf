"""Why a model says what it says, by real rows: what a row is made of, what would be without a row, which columns count.

Three measures, one question each:

    explain      Which real rows is this made of?          shares that never cancel, with what stays unexplained; of
                                                           machines, training rows and what each of them does
    row_effect   What would be without this training row?  exact, by a refit from sums
    attribution  What does every landmark's term add?      the model's own sum, to rounding; terms cancel
"""

from krepes.base.display import displayed
from krepes.base.linalg import effective_rank
from krepes.explain.attribution import as_direction, attribution, class_direction, target_direction
from krepes.explain.coefficients import coefficient_spectrum, landmark_norms
from krepes.explain.column_values import ColumnValues, column_values
from krepes.explain.concept import Concept
from krepes.explain.examples import Examples
from krepes.explain.expansion import landmarks_are_rows_of
from krepes.explain.faithfulness import Faithfulness, faithfulness
from krepes.explain.position_maps import PositionMaps, matching_maps, position_maps
from krepes.explain.predictions import Counterfactuals, Reasons, counterfactuals, explain
from krepes.explain.row_effect import RowEffects, row_effect

__all__ = [
    "ColumnValues",
    "Concept",
    "Counterfactuals",
    "Examples",
    "Faithfulness",
    "PositionMaps",
    "Reasons",
    "RowEffects",
    "as_direction",
    "attribution",
    "class_direction",
    "coefficient_spectrum",
    "column_values",
    "counterfactuals",
    "effective_rank",
    "explain",
    "faithfulness",
    "landmark_norms",
    "landmarks_are_rows_of",
    "matching_maps",
    "position_maps",
    "row_effect",
    "target_direction",
]

for _shown in (Concept, Examples, Reasons, RowEffects):
    displayed(_shown)
