"""Gaussian processes as models of rows with targets: what regressor and classifier share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from krepes.base.accumulator import Value
from krepes.base.codec import State
from krepes.base.rows import Rows
from krepes.base.validation import is_number
from krepes.machines.gaussian_process.posterior import Posterior
from krepes.machines.gaussian_process.sample_evidence import SampleEvidence
from krepes.machines.labelled_machine import LabelledMachine

T = TypeVar("T", bound=Value)


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcess(LabelledMachine[T, Posterior]):
    """The base of `GaussianProcessRegressor` and `GaussianProcessClassifier`.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable or list of them, default="auto"
        The covariance of the function, up to its amplitude. "auto" compares a Gaussian, two Matérn kernels and a
        Laplacian by their evidence on a sample of the rows, as a list of your own is compared.
    lengthscale : "auto", float, "median" or a multiple of it such as "4 median", default="auto"
        The distance over which the function changes. "auto" maximises the evidence of a sample.
    input_metric : None or "diagonal", default="diagonal"
        Whether each column may have a lengthscale of its own, where the evidence is higher by more than the number of
        lengthscales explains. Of lengthscale="auto" only.
    amplitude : float or "auto", default="auto"
        The variance of the function before any data, over k(x, x), in units of the variance of y. Of a
        classifier it has no unit, and is chosen on the sample, too.

    Attributes
    ----------
    amplitude_ : float
    metric_ : str or None
        What columns are to the kernel: "as given", "standardised", or "diagonal" with lengthscales of their own.
    """

    solution_type = Posterior

    amplitude: float | str = "auto"

    # What a subclass writes

    @abstractmethod
    def _evidence_of(self, Y: Tensor, weight: Tensor | None) -> SampleEvidence:
        """The evidence of rows with these targets, (n, c), encoded as numbers."""

    @property
    def _n_processes(self) -> int:
        """Columns of A."""
        return self.targets_.n_outputs

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
        found, space = self._solved(), self.space_
        both = self._mapped(lambda rows: found.moments(space, rows), X)
        c = len(found.b)
        return both[:, :c], both[:, c:]

    def _rows(self, X: Any) -> Rows:
        """All rows in the model's input space, in memory."""
        self.check_input(X)
        reader = self.space_.reader(X)
        return reader.take(np.arange(reader.n_rows)).inputs[0]

    # Files

    def _state(self, total: bool = True) -> State:
        # The factors stay, because the covariance of the weights is in their basis.
        return super()._state(total) | self.space_.state(factors=True)

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"c": self._n_processes}


def check_variance(name: str, value: object) -> None:
    """Refuse what is neither a positive number nor "auto"."""
    if value != "auto" and not is_number(value, above=0):
        raise ValueError(f"{name}={value!r:.60}: expected a number > 0 or 'auto'.")


def given(value: float | str) -> float | None:
    """The number, or None for "auto"."""
    return None if value == "auto" else float(value)
