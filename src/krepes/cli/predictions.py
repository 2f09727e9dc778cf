"""What `krepes predict` writes: one record for each row, with the prediction and what was asked for besides.

prediction                          the class, or the quantity
p_CLASS                             its probability
in_CLASS                            whether it is in the prediction set
low, high                           the prediction interval
std                                 the standard deviation of the function, of a Gaussian process
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.progress import Bars
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


class Predictions:
    """Records of a machine's predictions.

    Parameters
    ----------
    machine : LabelledMachine
    probabilities : bool
    confidence : float or None
        Of intervals, or of sets of classes.
    deviation : bool
        Whether the standard deviation of the function is written.
    """

    def __init__(
        self,
        machine: LabelledMachine[Any, Any],
        probabilities: bool,
        confidence: float | None,
        deviation: bool = False,
    ):
        self.machine, self.probabilities, self.confidence = machine, probabilities, confidence
        self.deviation = deviation
        if probabilities and not isinstance(machine, CLASSIFIERS):
            raise ValueError(
                "--proba is for classes; this machine predicts a quantity. --interval gives the range of each."
            )
        if deviation and not isinstance(machine, GaussianProcessRegressor):
            raise ValueError(
                "--std is for a quantity that a Gaussian process predicts: train one with --machine gaussian_process."
            )
        if confidence is not None and isinstance(machine, GaussianProcessClassifier):
            raise ValueError("Sets of classes are those of ridge machines; --proba gives probabilities.")

    @property
    def plain(self) -> bool:
        """Whether there is nothing but the prediction."""
        return self.dtype.names == ("prediction",)

    @property
    def dtype(self) -> np.dtype:
        """Names and types of the columns."""
        machine = self.machine
        if isinstance(machine, CLASSIFIERS):
            classes = machine.classes_
            fields: list[tuple[str, np.dtype | type]] = [("prediction", classes.dtype)]
            fields += [(f"p_{value}", np.float64) for value in classes if self.probabilities]
            fields += [(f"in_{value}", np.bool_) for value in classes if self.confidence is not None]
            return np.dtype(fields)
        assert isinstance(machine, REGRESSORS)
        ends = [""] if machine.targets_.flat else [f"_{j}" for j in range(machine.targets_.n_outputs)]
        names = [f"prediction{end}" for end in ends]
        names += [f"{side}{end}" for end in ends for side in ("low", "high") if self.confidence is not None]
        names += [f"std{end}" for end in ends if self.deviation]
        return np.dtype([(name, np.float64) for name in names])

    def of(self, rows: Rows | Source) -> np.ndarray:
        """The records of some rows, (n,)."""
        machine, q = self.machine, self.confidence
        columns: list[np.ndarray] = []
        if isinstance(machine, CLASSIFIERS):
            columns = [machine.predict(rows)]
            columns += list(machine.predict_proba(rows).T) if self.probabilities else []
            if q is not None and isinstance(machine, KernelRidgeClassifier):
                columns += list(machine.predict_set(rows, confidence=q).T)
        elif isinstance(machine, REGRESSORS):
            columns = _columns(np.asarray(machine.predict(rows)))
            if q is not None:
                columns += _columns(machine.predict_interval(rows, confidence=q))  # (n, 2), or (n, c, 2)
            if self.deviation and isinstance(machine, GaussianProcessRegressor):
                columns += _columns(machine.predict(rows, return_std=True)[1])
        dtype = self.dtype
        records = np.empty(len(columns[0]), dtype=dtype)
        for name, column in zip(dtype.names or (), columns):
            records[name] = column
        return records

    def batches(self, source: Source, batch_rows: int) -> Iterator[np.ndarray]:
        """Records of all rows, in parts; plain values where there is nothing but the prediction."""
        from krepes.base.rows import count_rows

        with Bars().stage("Predicting", source.n_rows) as stage:
            for _, batch in source.batches(batch_rows):
                records = self.of(batch)
                yield records["prediction"] if self.plain else records
                stage.advance(count_rows(batch))


def _columns(values: np.ndarray) -> list[np.ndarray]:
    """Of an array (n,), (n, c) or (n, c, 2)."""
    return list(values.reshape(len(values), -1).T)
