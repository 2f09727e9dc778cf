from typing import Any

import numpy as np

class TargetTags:
    required: bool
    one_d_labels: bool
    two_d_labels: bool
    positive_only: bool
    multi_output: bool
    single_output: bool
    def __init__(self, required: bool, **tags: bool) -> None: ...

class TransformerTags:
    preserves_dtype: list[str]

class ClassifierTags:
    poor_score: bool
    multi_class: bool
    multi_label: bool
    def __init__(self, poor_score: bool = ..., multi_class: bool = ..., multi_label: bool = ...) -> None: ...

class RegressorTags:
    poor_score: bool
    def __init__(self, poor_score: bool = ...) -> None: ...

class InputTags:
    one_d_array: bool
    two_d_array: bool
    three_d_array: bool
    sparse: bool
    categorical: bool
    string: bool
    dict: bool
    positive_only: bool
    allow_nan: bool
    pairwise: bool

class Tags:
    estimator_type: str | None
    target_tags: TargetTags
    transformer_tags: TransformerTags  # of a transformer; None for others
    classifier_tags: ClassifierTags | None
    regressor_tags: RegressorTags | None
    input_tags: InputTags
    array_api_support: bool
    no_validation: bool
    non_deterministic: bool
    requires_fit: bool
    def __init__(
        self,
        estimator_type: str | None,
        target_tags: TargetTags,
        transformer_tags: TransformerTags | None = None,
        classifier_tags: ClassifierTags | None = None,
        regressor_tags: RegressorTags | None = None,
    ) -> None: ...

def check_random_state(seed: Any) -> np.random.RandomState: ...
def column_or_1d(y: Any, *, dtype: Any = None, input_name: str = ..., warn: bool = False) -> np.ndarray: ...
def estimator_html_repr(estimator: object) -> str: ...
