"""The parts of a model's feature space, under the names that its fitted attributes have."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError

from krepes.base.rows import Rows
from krepes.features.space import FeatureSpace
from krepes.kernels import Kernel
from krepes.landmarks.nystrom import NystromMap
from krepes.preprocessing.input_space import InputSpace
from krepes.views import Views


class HasSpace:
    """A model with a feature space.

    Attributes
    ----------
    space_ : FeatureSpace
        All that was fixed before the first kernel value.
    """

    space_: FeatureSpace

    def _fitted_space(self) -> FeatureSpace:
        """The feature space, or an error where there is none; cheaper than scikit-learn's own check."""
        if "space_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
        return self.space_

    @property
    def input_space_(self) -> InputSpace:
        return self._fitted_space().inputs

    @property
    def kernel_(self) -> Kernel:
        return self._fitted_space().kernel

    @property
    def views_(self) -> Views:
        return self._fitted_space().views

    @property
    def landmarks_(self) -> Rows:
        return self._fitted_space().landmarks

    @property
    def landmark_indices_(self) -> np.ndarray | None:
        return self._fitted_space().landmark_rows

    @property
    def views_per_landmark_(self) -> int:
        return self._fitted_space().views_per_landmark

    @property
    def features_(self) -> NystromMap:
        return self._fitted_space().features

    @property
    def rank_(self) -> int:
        return self._fitted_space().rank

    @property
    def exact_views_(self) -> bool:
        return self._fitted_space().exact_views

    @property
    def seed_(self) -> int:
        return self._fitted_space().seed
