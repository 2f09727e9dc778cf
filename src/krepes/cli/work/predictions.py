"""What `krepes predict` writes: one record for each row, with the prediction and what was asked for besides.

prediction                          the class, or the quantity
p_CLASS                             its probability
in_CLASS                            whether it is in the prediction set
low, high                           the prediction interval
std                                 the standard deviation of the function, of a Gaussian process
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.cli.result_files import records_of
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
)
from krepes.machines.labelled_machine import LabelledMachine

if TYPE_CHECKING:
    from krepes.sources import Rows, Source

CLASSIFIERS = KernelRidgeClassifier, GaussianProcessClassifier
REGRESSORS = KernelRidgeRegressor, GaussianProcessRegressor


@dataclass(frozen=True)
class Predictions:
    """Records of a machine's predictions.

    Attributes
    ----------
    proba : whether probabilities of classes are written.
    confidence : of intervals, or of sets of classes.
    std : whether the standard deviation of the function is written.
    """

    proba: bool
    confidence: float | None
    std: bool

    def check(self, machine: LabelledMachine[Any, Any]) -> None:
        """Refuse what this machine cannot tell."""
        if self.proba and not isinstance(machine, CLASSIFIERS):
            raise ValueError(
                "--proba is for classes; this machine predicts a quantity. --interval gives the range of each."
            )
        if self.std and not isinstance(machine, GaussianProcessRegressor):
            raise ValueError(
                "--std is for a quantity that a Gaussian process predicts: train one with --machine gaussian_process."
            )
        if self.confidence is not None and isinstance(machine, GaussianProcessClassifier):
            raise ValueError("Sets of classes need a ridge machine; --proba gives probabilities.")

    def dtype(self, machine: LabelledMachine[Any, Any]) -> np.dtype:
        """Names and types of the columns."""
        if isinstance(machine, CLASSIFIERS):
            classes = machine.classes_
            fields: list[tuple[str, np.dtype | type]] = [("prediction", classes.dtype)]
            fields += [(f"p_{value}", np.float64) for value in classes if self.proba]
            fields += [(f"in_{value}", np.bool_) for value in classes if self.confidence is not None]
            return np.dtype(fields)
        assert isinstance(machine, REGRESSORS)
        ends = [""] if machine.targets_.flat else [f"_{j}" for j in range(machine.targets_.n_outputs)]
        names = [f"prediction{end}" for end in ends]
        names += [f"{side}{end}" for end in ends for side in ("low", "high") if self.confidence is not None]
        names += [f"std{end}" for end in ends if self.std]
        return np.dtype([(name, np.float64) for name in names])

    def __call__(self, machine: LabelledMachine[Any, Any], rows: Rows | Source) -> np.ndarray:
        """The records of some rows, (n,)."""
        assert isinstance(machine, (*CLASSIFIERS, *REGRESSORS))
        found: list[np.ndarray] = [np.asarray(machine.predict(rows))]  # each (n,), (n, c) or (n, c, 2)
        if self.proba and isinstance(machine, CLASSIFIERS):
            found.append(machine.predict_proba(rows))
        if self.confidence is not None and isinstance(machine, KernelRidgeClassifier):
            found.append(machine.predict_set(rows, confidence=self.confidence))
        if self.confidence is not None and isinstance(machine, REGRESSORS):
            found.append(machine.predict_interval(rows, confidence=self.confidence))
        if self.std and isinstance(machine, GaussianProcessRegressor):
            found.append(machine.predict(rows, return_std=True)[1])
        columns = (column for values in found for column in values.reshape(len(values), -1).T)
        return records_of(self.dtype(machine), columns)
