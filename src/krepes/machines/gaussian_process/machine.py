"""Gaussian processes as models of rows with targets: what regressor and classifier share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from krepes.base.accumulator import Value
from krepes.base.codec import State, decode
from krepes.base.limits import is_number
from krepes.base.rows import Rows
from krepes.kernels.radial import Lengthscale
from krepes.machines.gaussian_process.posterior import Posterior
from krepes.machines.gaussian_process.sample_evidence import SampleEvidence
from krepes.machines.labelled_machine import LabelledMachine

T = TypeVar("T", bound=Value)


class GaussianProcess(LabelledMachine[T, Posterior]):
    """The base of `GaussianProcessRegressor` and `GaussianProcessClassifier`, which say what the parameters mean."""

    lengthscale: Lengthscale
    input_metric: str | None
    amplitude: float | str

    # What a subclass writes

    @abstractmethod
    def _evidence_of(self, Y: Tensor, weight: Tensor | None) -> SampleEvidence:
        """The evidence of rows with these targets, (n, c), encoded as numbers."""

    @property
    @abstractmethod
    def _n_processes(self) -> int:
        """Columns of A."""

    # Fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_variance("amplitude", self.amplitude)
        if self.input_metric not in (None, "diagonal"):
            raise ValueError(f"input_metric={self.input_metric!r}: expected None or 'diagonal'.")

    # Using

    @property
    def amplitude_(self) -> float:
        """The variance of the prior is this times k(x, x), in units of the encoded targets."""
        return self._solved().amplitude

    @property
    def log_marginal_likelihood_(self) -> float:
        return self._solved().evidence

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, c) and variances (n, k) of f, in units of the encoded targets."""
        found, space = self._solved(), self._fitted_space()
        both = self._mapped(lambda rows: found.moments(space, rows), X)
        c = len(found.b)
        return both[:, :c], both[:, c:]

    def _rows(self, X: Any) -> Rows:
        """All rows in the model's input space, in memory."""
        self.check_input(X)
        reader = self._fitted_space().reader(X)
        return reader.take(np.arange(reader.n_rows)).inputs[0]

    # Files

    def _state(self, total: bool = True) -> State:
        # The factors stay, because the covariance of the weights is in their basis.
        return super()._state(total) | self.space_.state(factors=True)

    def _solution_of(self, state: State) -> Posterior:
        space = self.space_
        sizes = {"m": len(space.landmarks), "r": space.rank, "c": self._n_processes}
        return decode(Posterior, state, space.device, **sizes)


def check_variance(name: str, value: object) -> None:
    """Refuse what is neither a positive number nor "auto"."""
    if value != "auto" and not is_number(value, above=0):
        raise ValueError(f"{name}={value!r:.60}: expected a number > 0 or 'auto'.")


def given(value: float | str) -> float | None:
    """The number, or None for "auto"."""
    return None if value == "auto" else float(value)
