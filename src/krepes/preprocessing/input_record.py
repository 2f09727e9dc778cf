"""What an estimator remembers of its input, as scikit-learn asks: the number and the names of features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from krepes.base.codec import State
from krepes.preprocessing.input_space import InputSpace
from krepes.sources.source import check_unique, is_pandas

RECORD = ("n_features_in_", "feature_names_in_")


class RecordsInput(BaseEstimator):
    """Sets `n_features_in_` and, for frames, `feature_names_in_`, and checks later data against them."""

    def _record_input(self, X: Any, inputs: InputSpace) -> None:
        for name in RECORD:
            if name in vars(self):
                delattr(self, name)
        if is_pandas(X):
            validate_data(self, used_columns(X, inputs), reset=True, skip_check_array=True)
        elif inputs.n_features is not None:
            self.n_features_in_ = inputs.n_features

    def _copy_record(self, other: RecordsInput) -> Self:
        """Remember the input that another estimator remembers."""
        for name in RECORD:
            if name in vars(other):
                setattr(self, name, vars(other)[name])
        return self

    def _record_state(self) -> State:
        """What a model file keeps."""
        names = vars(self).get("feature_names_in_")
        return {
            "n_features_in": vars(self).get("n_features_in_"),
            "feature_names_in": None if names is None else [str(name) for name in names],
        }

    def _restore_record(self, state: State) -> None:
        if state["n_features_in"] is not None:
            self.n_features_in_ = state["n_features_in"]
        if state["feature_names_in"] is not None:
            self.feature_names_in_ = np.asarray(state["feature_names_in"], dtype=object)

    def _check_same_input(self, X: Any, inputs: InputSpace) -> None:
        """Frames must have the columns, in the order, of the frame that was fitted, as in scikit-learn.

        A model that was fitted on a file finds its columns by name, in any order.
        """
        if not hasattr(self, "feature_names_in_"):
            return
        if is_pandas(X):
            check_unique(list(map(str, X.columns)), "X")
            validate_data(self, used_columns(X, inputs), reset=False, skip_check_array=True)
        elif hasattr(X, "__array__") and getattr(X, "ndim", 0) == 2:
            validate_data(self, X, reset=False, skip_check_array=True)


def used_columns(X: Any, inputs: InputSpace) -> Any:
    """A frame without the columns that the encoder does not use: labels, excluded ones, those it left out."""
    encoder = inputs.encoder
    if encoder is None:
        return X
    unused = {column.name for column in encoder.left_out_} - set(inputs.raw_)
    return X.loc[:, [column for column in X.columns if column not in unused]] if unused else X
