"""Transferability: which pretrained model's features suit a task, without training on it.

Each model's features pass once; what is kept (`TransferStatistics`) gives

    accuracy on rows left out            ridge regression     what a linear model would reach, with a standard error
    log CKA with the one-hot labels      [tang, Sec. 2.4.3]   invariant to rotation and scale, at most 0
    LogME                                [logme]              evidence of a Bayesian linear model
    H-score                              [bao; ibrahim]       spread of class means in units of the covariance
    LEEP                                 [leep]               if a source classifier's probabilities are given

The accuracy ranks, because of all it agreed best with probes that had 500 labels (docs/alignment.md). The others answer
other questions: CKA has a null distribution; LogME and H-score see correlated features and depend on the number of rows
and features. Cost per model: one pass, O(n d^2) to O(n d).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from krepes.alignment.inputs import Numbers, feature_reader
from krepes.alignment.layers.recording import NetworkRows, iter_layers
from krepes.alignment.transfer.leep import leep
from krepes.alignment.transfer.one_pass_statistics import TransferScores, TransferStatistics, chosen_scores
from krepes.alignment.transfer.target_and_chance import TransferTarget
from krepes.base.blocks import row_blocks
from krepes.base.display import text_table
from krepes.base.validation import as_array, check_choice, check_dense, check_same_rows
from krepes.engines import Engine, as_engine
from krepes.sources import Batches, Source
from krepes.sources.dask_collections import dask_kind
from krepes.sources.loaders import is_loader

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 8192
HEADINGS = {
    "leave_one_out": "left out %",
    "log_cka": "log CKA",
    "logme": "LogME",
    "h_score": "H-score",
    "h_score_regularized": "H-score regularised",
    "h_score_published": "H-score as published",
    "leep": "LEEP",
}


@dataclass(frozen=True)
class Transferability:
    """A table of models and scores.

    Attributes
    ----------
    models : {name: TransferScores}
        In the order in which the models were given.
    score_names : tuple of str
        The scores asked for.
    rank_by : str
        The score that orders the models.
    n_rows, n_classes : int
    """

    models: dict[str, TransferScores]
    score_names: tuple[str, ...]
    rank_by: str
    n_rows: int
    n_classes: int

    def column(self, name: str) -> np.ndarray:
        """A number of every model, in the order given: a score, "cka", "z", "p_value", "width" and so on."""
        return np.array([getattr(model, name) for model in self.models.values()])

    @property
    def names(self) -> list[str]:
        return list(self.models)

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """{score: array of shape (models,)}; larger is better for all."""
        return {name: self.column(name) for name in self.score_names}

    @property
    def cka(self) -> np.ndarray:
        return self.column("cka")

    @property
    def z(self) -> np.ndarray:
        """CKA in deviations above chance."""
        return self.column("z")

    @property
    def p_values(self) -> np.ndarray:
        """P-values of "features and labels are unrelated"."""
        return self.column("p_value")

    @property
    def ranking(self) -> list[str]:
        """Names, the best first; undefined scores and constant features last."""
        return [self.names[i] for i in self.order()]

    @property
    def level(self) -> list[str]:
        """Models that cannot be told from the best by rows left out: accuracies within two standard errors.

        Every model is compared with the most accurate one, row by row. Empty where rows were not left out.
        """
        judged = {name: model.left_out for name, model in self.models.items() if model.left_out is not None}
        if not judged:
            return []
        best = max(judged.values(), key=lambda each: each.accuracy)
        return [name for name in self.ranking if name in judged and judged[name].level_with(best)]

    def order(self) -> np.ndarray:
        """Positions of the models, the best first; of equal scores the one with the larger CKA."""
        # Because log CKA is -inf below zero, CKA itself is compared.
        values = self.column("cka" if self.rank_by == "log_cka" else self.rank_by)
        nothing = np.isnan(values) | (self.column("null_sd") == 0)  # undefined, or constant features
        return np.lexsort((-np.nan_to_num(self.cka), np.where(nothing, np.inf, -values)))

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per model, the best first."""
        error = ("leave_one_out_error",) if "leave_one_out" in self.score_names else ()
        columns = (
            "width",
            *self.score_names,
            *error,
            "cka",
            "null_mean",
            "null_sd",
            "z",
            "p_value",
            "method",
        )
        return [
            {"model": name} | {column: getattr(self.models[name], column) for column in columns}
            for name in self.ranking
        ]

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        cells, notes = self.cells()
        return "\n".join([text_table(cells), *notes])

    def cells(self) -> tuple[list[list[str]], list[str]]:
        """The table as text, the headings first, and the remarks below it."""
        methods = {model.method for model in self.models.values()}
        mixed = len(methods) > 1
        last = ["CKA by"] if mixed else []
        table = [["model", "features", *(HEADINGS[name] for name in self.score_names), "z", "p", *last]]
        for row in self.rows():
            scores = [_score_text(name, row) for name in self.score_names]
            last = [row["method"]] if mixed else []
            chance = [number_text(row["z"], 1), p_text(row["p_value"])]
            table.append([row["model"], f"{row['width']:,}", *scores, *chance, *last])
        notes = []
        if len(self.level) > 1:
            notes.append(f"Rows left out cannot tell these apart: {', '.join(self.level)}.")
        if "sketch" in methods:
            which = "Sketched" if mixed else "All are sketched:"
            notes.append(
                f"{which} CKA, z and p are estimates; p comes from permuted labels. LogME and H-score need second "
                "moments, which a sketch does not keep."
            )
        if "log_cka" in self.score_names and (self.cka <= 0).any():
            notes.append(f"{NEGATIVE}: CKA is not above zero, and has no logarithm; it counts as the lowest.")
        if np.isnan(self.cka).any():
            notes.append(
                "No log CKA: it is undefined, as for rows that are all equally far from one another."
            )
        return table, notes


NEGATIVE = "CKA ≤ 0"


def _score_text(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "leave_one_out":
        return f"{100 * value:.1f} ± {100 * row['leave_one_out_error']:.1f}"
    return NEGATIVE if value == -math.inf else number_text(value, 3)


def number_text(value: float, digits: int) -> str:
    """A number as text, blank if undefined.

    >>> number_text(-0.6804, 3), number_text(float("nan"), 3)
    ('-0.680', '')
    """
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def p_text(p: float) -> str:
    """A p-value as text, blank if undefined.

    >>> p_text(0.0123), p_text(1e-40), p_text(float("nan"))
    ('0.012', '< 1e-16', '')
    """
    return "" if math.isnan(p) else "< 1e-16" if p < 1e-16 else f"{p:.2g}"


def transferability(
    models: Mapping[str, Any],
    y: Any,
    X: Any = None,
    *,
    probabilities: Mapping[str, Numbers] | None = None,
    scores: Iterable[str] | None = None,
    rank_by: str | None = None,
    method: str = "auto",
    n_buckets: int = 256,
    n_permutations: int = 99,
    max_width: int = 2048,
    batch_rows: int | None = None,
    seed: int = 0,
    engine: Engine | str | None = None,
) -> Transferability:
    """Rank models, or layers, by how well their features suit the labels.

    Parameters
    ----------
    models : {name: features}
        Features of the labelled rows: an array or tensor (n, d), an iterable of batches (b, d) in the order of the
        labels (also a torch DataLoader or `krepes.sources.Batches`), or a torch module, which gives features of `X`.
        Each is read once. Also a path, a Dask array or another source of rows of numbers.
    y : labels of shape (n,)
    X : array or tensor of shape (n, ...), a torch DataLoader or `krepes.sources.Batches`, optional
        What torch modules take. A loader is read once for every module, and must not shuffle.
    probabilities : {name: (n, z)}, optional
        The source classifier's probabilities of models that have one, for LEEP.
    scores, method, n_buckets, n_permutations, max_width, seed : see `TransferStatistics`
    rank_by : str or None, default=None
        The score to order by; by default the first of `scores`, which is "leave_one_out".
    engine : None, "dask", the address of a scheduler, or Engine, default=None
        Where features that are arrays, files or Dask collections are read.
    batch_rows : int, optional
        Rows that are read at a time; by default 8192 of an array, and 256 that go through a module.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> good, noise = np.eye(3)[y] + 0.5 * rng.normal(size=(300, 3)), rng.normal(size=(300, 50))
    >>> found = transferability({"noise": noise, "good": good}, y)
    >>> found.ranking, found.level, bool(found.p_values[1] < 0.001 < found.p_values[0])
    (['good', 'noise'], ['good'], True)
    """
    if not isinstance(models, Mapping) or not models:
        raise ValueError(f"Give models as {{name: features}}, at least one; got {type(models).__name__}.")
    probabilities = {} if probabilities is None else dict(probabilities)
    for name in probabilities:
        check_choice("probabilities of", name, models)
    wanted = chosen_scores(scores, method)
    known = (*wanted, "leep") if probabilities else wanted
    if rank_by is None:
        rank_by = wanted[0]
    check_choice("rank_by", rank_by, known)
    target = TransferTarget(y, n_buckets, n_permutations, seed)
    found: dict[str, TransferScores] = {}
    for name, features in models.items():
        statistics = TransferStatistics(target, scores=wanted, method=method, max_width=max_width)
        try:
            if _is_source(features) or (engine is not None and _is_array(features)):
                reader = feature_reader(features, "It")
                check_same_rows(reader.n_rows, target.n_rows, "Its features", "y")
                as_engine(engine).reduce(statistics, reader, name=f"Features of {name}")
            else:
                for batch in _batches(features, X, batch_rows, target.n_rows):
                    statistics.update(batch)
            found[name] = statistics.score()
        except ValueError as error:
            raise ValueError(f"Model {name!r}: {error}") from error
    for name, theta in probabilities.items():
        found[name] = replace(found[name], leep=leep(theta, y))
    return Transferability(found, known, rank_by, target.n_rows, len(target.classes))


def _is_source(features: Any) -> bool:
    return isinstance(features, str | os.PathLike | Source) or dask_kind(features) is not None


def _batches(features: Any, X: Any, batch_rows: int | None, n_rows: int) -> Iterator[Any]:
    """Batches of features, in order."""
    if isinstance(features, nn.Module):
        if X is None:
            raise ValueError("is a torch module; give what it takes as X.")
        rows = NetworkRows(X)
        if rows.in_memory:
            check_same_rows(rows.n_rows, n_rows, "X", "y")
        for _, outputs in iter_layers(features, rows, [""], batch_rows=batch_rows or 256):
            yield outputs[""]
        return
    if is_loader(features):
        features = Batches(features)
    if isinstance(features, list | tuple) and not (features and _is_array(features[0])):
        features = as_array(features, "The list of features")  # rows of numbers
    check_dense(features, "The array of features")
    if _is_array(features):
        check_same_rows(len(features), n_rows, "Its array", "y")
        for block in row_blocks(n_rows, batch_rows or BATCH_ROWS):
            yield features[block]
    elif isinstance(features, Iterable):
        yield from features
    else:
        raise TypeError(
            f"Features are a {type(features).__name__}; expected an array (n, d), batches of rows, or a torch module."
        )


def _is_array(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__array__")
