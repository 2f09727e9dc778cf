"""The non-negative combination of kernels that aligns best with a target.

    max over mu >= 0 of CKA(sum_k mu_k K_k, Y Y^T)  <=>  min over v >= 0 of v^T M v - 2 v^T a,   mu = v / |v|
    M_kl = HSIC(K_k, K_l),   a_k = HSIC(K_k, Y Y^T)                                [cortes, Prop. 9; tang, Eq. 3.3]

Solved as non-negative least squares on the scaled problem, M_kk = 1, whose eigenvalues below a relative cut are
dropped; exact, because a lies in the range of M. Scaling changes the conditioning (3e21 to 72 in one case) and not
the optimum, which is equivariant: layers are not preferred for a small norm, as [tang, Fig. 3.7] has it. Zero weights
arise without a penalty.

HSIC is the unbiased criterion, or a debiased sketch: the bias of either would add a multiple of t t^T to M, t_k the
kernels' traces. Differs from [tang, Eq. 1.4 - 1.7]: mu >= 0, not mu > 0, and the norm of mu is stated (2-norm).

Cost O(L^2 n d^2) for L kernels of d features, then O(L^3).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from krepes.alignment.inputs import KernelChoice, Numbers, target_matrix
from krepes.alignment.similarity.augmented_grams import origin_of
from krepes.alignment.similarity.cka import centred, check_enough_rows, check_estimator, self_hsic
from krepes.alignment.similarity.hsic import hsic
from krepes.alignment.similarity.nonnegative_minimum import nonnegative_minimum
from krepes.alignment.similarity.sketched_cka import SketchedCKA
from krepes.base.validation import as_array, as_flat_matrix, check_same_rows, estimator_rows, generator_of

Columns = Iterable[int | str]  # numbers, or names
ColumnGroups = Mapping[str, Columns] | Iterable[Columns] | Iterable[Hashable]  # the last: a label per column


@dataclass(frozen=True)
class Combination:
    """Weights of kernels, and how well their sum aligns with the target.

    Attributes
    ----------
    names : the kernels' names.
    weights : mu >= 0 of the kernels as given, with 2-norm 1; all zero if no kernel aligns with the target.
    alignment : CKA of the combination with the target.
    alone : CKA of each kernel with the target, NaN where a kernel is constant.
    frequency : share of resamples in which each kernel was chosen, NaN where there were none.
    optimality : largest violation of the optimality conditions of the scaled problem.
    """

    names: list[str]
    weights: np.ndarray
    alignment: float
    alone: np.ndarray
    frequency: np.ndarray
    optimality: float

    @property
    def chosen(self) -> list[str]:
        """Kernels with a positive weight, the heaviest first."""
        order = np.argsort(-self.weights, kind="stable")
        return [self.names[k] for k in order if self.weights[k] > 0]


def combine_kernels(
    kernels: Mapping[str, Numbers] | Sequence[Numbers],
    y: Any,
    *,
    kernel: KernelChoice = "linear",
    estimator: str = "unbiased",
    n_resamples: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> Combination:
    """The non-negative sum of kernels that aligns best with a target, usually of few of them.

    Parameters
    ----------
    kernels : {name: features (n, d)} or list of features
        With `kernel="precomputed"`, kernel matrices (n, n).
    y : labels or numbers of shape (n,), or a target matrix (n, c)
    kernel : "linear", "precomputed", Kernel or name, default="linear"
    estimator : "unbiased" or "biased", default="unbiased"
    n_resamples : int, default=0
        Random halves of the rows on which the choice is repeated, for `frequency`.
    random_state : int, numpy Generator or None, default=None

    Examples
    --------
    The second kernel is the target itself, the first is unrelated to it:

    >>> y = np.array([0, 1] * 10)
    >>> found = combine_kernels({"noise": np.arange(20.0) ** 2 % 7, "signal": 5.0 * y}, y)
    >>> found.chosen, round(found.alignment, 9)
    (['signal'], 1.0)
    """
    check_estimator(estimator)
    if not isinstance(kernels, Mapping | list | tuple) or not kernels:
        raise ValueError(
            f"There are no kernels in this {type(kernels).__name__}; expected {{name: features (n, d)}}, or a list."
        )
    given = dict(kernels) if isinstance(kernels, Mapping) else {str(k): Z for k, Z in enumerate(kernels)}
    matrices = {name: as_flat_matrix(Z, repr(name)) for name, Z in given.items()}
    target = target_matrix(y)
    for name, Z in matrices.items():
        check_same_rows(len(Z), len(target), repr(name), "y")
    check_enough_rows(len(target))
    problem = _problem(matrices, target, kernel, estimator)
    generator = generator_of(random_state)
    half, counts = len(target) // 2, np.zeros(len(given))
    for _ in range(n_resamples):
        rows = generator.permutation(len(target))[: max(half, 4)]
        square = isinstance(kernel, str) and kernel == "precomputed"
        parts = {name: Z[np.ix_(rows, rows)] if square else Z[rows] for name, Z in matrices.items()}
        counts += _solved(list(given), *_problem(parts, target[rows], kernel, estimator)).weights > 0
    return _solved(list(given), *problem, counts / n_resamples if n_resamples else None)


def combine_sketches(
    sketch: SketchedCKA, target: str = "target", names: list[str] | None = None
) -> Combination:
    """The combination from a sketch that holds the target, in O(L M^2 d): for layers and many models."""
    if not isinstance(sketch, SketchedCKA):
        raise TypeError(f"sketch is a {type(sketch).__name__}; expected a SketchedCKA.")
    names = [name for name in sketch.names if name != target] if names is None else list(names)
    if not names:
        raise ValueError(f"The sketch holds only {target!r}: there are no kernels to combine.")
    grams, exponents = sketch.unit_grams([*names, target])
    P = grams @ grams.T
    if not P[-1, -1] > 0:
        raise ValueError(f"All rows of {target!r} are the same: nothing can be aligned with it.")
    return _solved(names, P[:-1, :-1], P[:-1, -1], np.log(2) * exponents[:-1], P[-1, -1] ** 0.5)


def _problem(
    matrices: Mapping[str, np.ndarray], target: np.ndarray, kernel: KernelChoice, estimator: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """M and a of kernels with a mean diagonal of 1, the logarithm of what that was, and the norm of the target."""
    centres = [centred(Z, kernel, repr(name)) for name, Z in matrices.items()]
    goal = centred(target, "linear", "y")
    M = np.zeros((len(centres), len(centres)))
    for k, K in enumerate(centres):
        for j, L in enumerate(centres[: k + 1]):
            M[k, j] = M[j, k] = hsic(K, L, estimator)
    a = np.array([hsic(K, goal, estimator) for K in centres])
    logs = np.array([K.log_size for K in centres])
    return M, a, logs, self_hsic(goal, estimator, "y") ** 0.5


def _solved(
    names: list[str],
    M: np.ndarray,
    a: np.ndarray,
    logs: np.ndarray,  # logarithms of the kernels' sizes as given, where those that M and a belong to are 1
    goal: float,
    frequency: np.ndarray | None = None,
) -> Combination:
    own = np.sqrt(np.maximum(M.diagonal(), 0.0))
    alive = own > 1e-13 * own.max(initial=0.0)
    if not alive.any():
        raise ValueError("All kernels are constant: none can be aligned with anything.")
    scale = np.where(alive, own, 1.0)
    A, b = M / np.outer(scale, scale), np.where(alive, a / scale, 0.0)
    A[~alive], A[:, ~alive] = 0.0, 0.0
    v = np.zeros(len(names))
    v[alive], residual = nonnegative_minimum(A[np.ix_(alive, alive)], b[alive])
    length = np.sqrt(v @ A @ v)
    return Combination(
        names,
        _weights(names, v / scale, logs),
        float(v @ b / (length * goal)) if length > 0 else 0.0,
        np.where(alive, b / goal, np.nan),
        np.full(len(names), np.nan) if frequency is None else frequency,
        residual,
    )


def _weights(names: list[str], scaled: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Weights of the kernels as given, with 2-norm 1, from weights of kernels scaled to size 1."""
    used = scaled > 0
    if not used.any():
        return np.zeros(len(scaled))
    found = np.where(used, np.log(np.where(used, scaled, 1.0)) - logs, -np.inf)
    weights = np.exp(found - found.max())
    if (weights[used] == 0).any():
        large, small = (names[k] for k in (np.argmin(np.where(used, found, np.inf)), np.argmax(found)))
        raise ValueError(
            f"{large!r} and {small!r} are too different in scale to be weighed: divide each by about its size."
        )
    return weights / np.linalg.norm(weights)


class AlignmentSelector(TransformerMixin, BaseEstimator):
    """Weigh groups of columns so that their linear kernels together align best with y, and drop the other groups.

        X -> [mu_1^(1/2) X_1, mu_2^(1/2) X_2, ...] over the groups with mu_k > 0             [tang, Eq. 3.4]

    Parameters
    ----------
    groups : list of column lists, {name: column list}, one label per column, or None, default=None
        Columns are numbers, or names where X is a frame. Columns with the same label are a group. None makes every
        column a group.

    Attributes
    ----------
    combination_ : Combination
    columns_ : array of int
        The columns that are kept.
    scales_ : array
        What each is multiplied by: the kept features have a total variance of 1.
    n_features_in_ : int
    feature_names_in_ : array of str, where X is a frame

    Examples
    --------
    >>> y = np.array([0, 1] * 10)
    >>> X = np.column_stack([np.arange(20.0) ** 2 % 7, y])
    >>> AlignmentSelector().fit(X, y).columns_.tolist()
    [1]
    """

    n_features_in_: int

    def __init__(self, groups: ColumnGroups | None = None):
        self.groups = groups

    def fit(self, X: Any, y: Any) -> AlignmentSelector:
        """Find the weights."""
        if y is None:
            raise ValueError("AlignmentSelector requires y to be passed, but the target y is None.")
        X, y = estimator_rows(self, X, ensure_min_samples=2), as_array(y, "y")
        named = column_groups(self.groups, X.shape[1], list(getattr(self, "feature_names_in_", [])))
        self.combination_ = combine_kernels({name: X[:, group] for name, group in named.items()}, y)
        weights = self.combination_.weights
        if not weights.any():
            raise ValueError(
                "No group of columns aligns with y better than chance: there is nothing to keep."
            )
        kept = [(j, weight) for group, weight in zip(named.values(), weights) if weight > 0 for j in group]
        self.columns_ = np.array([j for j, _ in kept])
        scales = np.sqrt([weight for _, weight in kept])
        Z = X[:, self.columns_] * scales
        size = np.abs(Z - origin_of(Z)).max()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self.scales_ = scales / size / np.sqrt((Z / size).var(axis=0).sum())
        if not np.isfinite(self.scales_).all():
            raise ValueError(f"The columns of X vary by at most {size:.3g}: multiply X by a constant first.")
        return self

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Which columns are kept: a mask (n_features_in_,), or their indices in the order of the output."""
        check_is_fitted(self, "columns_")
        return self.columns_ if indices else np.isin(np.arange(self.n_features_in_), self.columns_)

    def get_feature_names_out(self, input_features: Sequence[str] | np.ndarray | None = None) -> np.ndarray:
        """The names of the kept columns, in the order of the output."""
        check_is_fitted(self, "columns_")
        return _check_feature_names_in(self, input_features)[self.columns_]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def transform(self, X: Any) -> np.ndarray:
        """The kept columns, scaled."""
        check_is_fitted(self, "columns_")
        X = estimator_rows(self, X, dtype=(np.float64, np.float32), reset=False)
        return X[:, self.columns_] * self.scales_


def column_groups(groups: ColumnGroups | None, n_columns: int, names: list[str]) -> dict[str, list[int]]:
    """Groups of columns in any of the forms that `AlignmentSelector` takes, as {name: column numbers}.

    >>> column_groups(["a", "b", "a"], 3, []), column_groups({"first": ["x"]}, 2, ["x", "y"])
    ({'a': [0, 2], 'b': [1]}, {'first': [0]})
    """
    if groups is None:
        return {str(j): [j] for j in range(n_columns)}
    wrong = f"groups={groups!r}: expected lists of columns, {{name: columns}}, or one label per column."
    if isinstance(groups, str) or not hasattr(groups, "__iter__"):
        raise ValueError(wrong)
    given = groups if isinstance(groups, Mapping) else dict(enumerate(groups))
    lists = {str(key): group for key, group in given.items() if _lists_columns(group)}
    if not given or 0 < len(lists) < len(given) or (isinstance(groups, Mapping) and not lists):
        raise ValueError(wrong)
    if not lists:
        if len(given) != n_columns:
            raise ValueError(f"There are {len(given)} labels for {n_columns} columns. {wrong}")
        labels = {str(label): label for label in given.values()}
        return {
            name: [j for j, other in enumerate(given.values()) if other == g] for name, g in labels.items()
        }
    found = {key: [_column(c, n_columns, names) for c in group] for key, group in lists.items()}
    empty = [key for key, group in found.items() if not group]
    if empty:
        raise ValueError(f"groups: group {empty[0]!r} has no columns.")
    return found


def _lists_columns(value: Columns | Hashable) -> TypeGuard[Columns]:
    return not isinstance(value, str) and hasattr(value, "__iter__")


def _column(column: int | str, n_columns: int, names: list[str]) -> int:
    if isinstance(column, str):
        if column in names:
            return names.index(column)
        raise ValueError(f"groups: X does not have a column {column!r}; its columns are {names[:30]}.")
    if not isinstance(column, int | np.integer) or isinstance(column, bool) or not 0 <= column < n_columns:
        raise ValueError(f"groups: {column!r} is not a column; expected numbers from 0 to {n_columns - 1}.")
    return int(column)
