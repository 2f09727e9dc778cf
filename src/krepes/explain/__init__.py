"""Why a representation is what it is: every number of it is a sum over landmarks, which are real examples."""

from krepes.base.display import displayed
from krepes.base.linalg import effective_rank
from krepes.explain.attribution import (
    as_direction,
    attribution,
    class_direction,
    contrast,
    target_direction,
    top_attribution,
)
from krepes.explain.concept import Concept
from krepes.explain.concept_scores import ConceptProfile, TcavScore, concept_profile, tcav
from krepes.explain.expansion import TopLandmarks, landmarks_are_rows_of
from krepes.explain.faithfulness import faithfulness
from krepes.explain.faithfulness_result import Faithfulness
from krepes.explain.influence import (
    ClassCoverage,
    class_coverage,
    coefficient_spectrum,
    influence,
    landmark_norms,
    leave_out,
    top_influence,
    top_leave_out,
)
from krepes.explain.position_maps import PositionMaps, matching_maps, position_maps
from krepes.explain.rankings import ReExpansion, RowExplanations, re_expansion, top_landmarks
from krepes.explain.row_effect import RowEffects, row_effect

__all__ = [
    "ClassCoverage",
    "Concept",
    "ConceptProfile",
    "Faithfulness",
    "PositionMaps",
    "ReExpansion",
    "RowEffects",
    "RowExplanations",
    "TcavScore",
    "TopLandmarks",
    "as_direction",
    "attribution",
    "class_coverage",
    "class_direction",
    "coefficient_spectrum",
    "concept_profile",
    "contrast",
    "effective_rank",
    "faithfulness",
    "influence",
    "landmark_norms",
    "landmarks_are_rows_of",
    "leave_out",
    "matching_maps",
    "position_maps",
    "re_expansion",
    "row_effect",
    "target_direction",
    "tcav",
    "top_attribution",
    "top_influence",
    "top_landmarks",
    "top_leave_out",
]

for _shown in (ClassCoverage, Concept, ConceptProfile, RowEffects, TcavScore, TopLandmarks):
    displayed(_shown)
