"""Transferability on bad input: the right answer, or an error that names the model and says what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from krepes.alignment import TransferStatistics, h_score, leep, logme, transferability
from refusals import refuses

rng = np.random.default_rng(0)
X, y = rng.normal(size=(24, 3)), np.arange(24) % 3
BAD = np.where(X > 1.5, np.nan, X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transferability({}, y), "at least one"),
        (lambda: transferability(X, y), "features"),
        (lambda: transferability({"a": X}, np.zeros(24)), ("two", "classes")),
        (lambda: transferability({"a": X}, []), "label"),
        (lambda: transferability({"a": X}, np.arange(24)), "24"),
        (lambda: transferability({"a": X[:3]}, [0, 1, 1]), "4 rows"),
        (lambda: transferability({"a": X, "b": BAD}, y), ("'b'", "NaN")),
        (lambda: transferability({"a": X, "b": X[:20]}, y), ("'b'", "20 rows", "y", "24")),
        (lambda: transferability({"b": iter([X, X])}, y), ("'b'", "24 rows")),
        (
            lambda: transferability({"b": iter([X[:20]])}, y),
            ("'b'", "20 rows", "24"),
        ),
        (lambda: transferability({"b": iter([])}, y), ("'b'", "0 rows")),
        (lambda: transferability({"b": iter([X[:20], X[20:, :2]])}, y), ("2 features", "3")),
        (lambda: transferability({"b": np.empty((24, 0))}, y), "(24, 0)"),
        (lambda: transferability({"m": nn.Linear(3, 2)}, y), ("'m'", "X")),
        (lambda: transferability({"m": nn.Linear(3, 2)}, y, X[:5]), ("X", "5 rows")),
        (lambda: transferability({"a": X}, y, rank_by="leep"), "rank_by='leep'"),
        (lambda: transferability({"a": X}, y, scores=("cka",), rank_by="cka"), "'log_cka'"),
        (lambda: transferability({"a": X}, y, scores=("logme",), method="sketch"), "'log_cka'"),
        (lambda: transferability({"a": X}, y + 0.5), "0.5"),
        (lambda: transferability({"a": X[:20]}, y), ("rows", "order")),
        (lambda: transferability({"a": X}, y, method="fast"), "method='fast'"),
        (lambda: transferability({"a": X}, y, n_permutations=0), "n_permutations=0"),
        (lambda: transferability({"a": X}, y, n_buckets=100, method="sketch"), ("power", "two")),
        (lambda: transferability({"a": X}, y, probabilities={"b": X}), "'b'"),
        (lambda: leep(X, y), "probabilities"),
        (lambda: leep(np.full((5, 2), 0.5), y), ("24 rows", "5")),
        (lambda: logme(X, y[:5]), ("y", "5 rows")),
        (lambda: h_score(BAD, y), "NaN"),
        (lambda: TransferStatistics(y).score(), "0 rows"),
        (lambda: TransferStatistics(y).update(X[:12]).update(X[:12], first_row=0).score(), "once"),
        (
            lambda: (
                TransferStatistics(y, method="sketch", n_buckets=16)
                .update(X[:12])
                .update(X[:12], first_row=0)
                .score()
            ),
            "once",
        ),
        (lambda: TransferStatistics(y).update(X[:2], rows=[0, 99]), ("row 99", "24")),
        (lambda: TransferStatistics(y).merge(TransferStatistics(y, method="sketch")), "settings"),
        (lambda: TransferStatistics(y).merge(TransferStatistics(y[::-1])), "labels"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with refuses(ValueError, message):
        call()


@pytest.mark.parametrize("method", ["exact", "sketch"])
def test_features_that_are_constant_are_last_and_do_not_stop_the_others(method):
    """R5: nothing follows from them: CKA and H-score are 0, and p is 1."""
    found = transferability({"constant": np.full((24, 5), 0.1), "x": X}, y, method=method, n_buckets=16)
    assert found.ranking == ["x", "constant"]
    assert (found.cka[0], found.z[0], found.p_values[0]) == (0.0, 0.0, 1.0)
    assert found.scores["log_cka"][0] == -np.inf
    assert method == "sketch" or (
        found.scores["h_score"][0] == 0 and np.isfinite(found.scores["logme"]).all()
    )


@pytest.mark.parametrize("method", ["exact", "sketch"])
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200])
def test_features_whose_squares_underflow_have_finite_scores(size, method):
    """R5: of two values that no square can tell from zero."""
    found = transferability({"tiny": np.where(X > 0, size, 0.0)}, y, method=method, n_buckets=16)
    assert np.isfinite([*found.cka, *found.z, *found.p_values]).all()
    assert all(not np.isnan(values).any() for values in found.scores.values())


def test_more_features_than_rows():
    wide = rng.normal(size=(24, 200))
    found = transferability({"wide": wide, "float32": wide.astype(np.float32)}, y)
    assert found.p_values[0] > 0.001
    assert all(np.isfinite(values).all() or name == "log_cka" for name, values in found.scores.items())


def test_alignment_below_zero_is_minus_infinity_and_still_ranked():
    """Centred one-hot labels of another partition: less alike than chance."""
    other = np.eye(3)[(y + np.arange(24) // 3) % 3]
    found = transferability({"other": other, "good": np.eye(3)[y] + 0.1 * X}, y)
    assert found.cka[0] < 0
    assert found.scores["log_cka"][0] == -np.inf
    assert found.ranking == ["good", "other"]


def test_a_large_mean_and_a_huge_scale_lose_nothing():
    first, moved, huge = (TransferStatistics(y).update(Z).score() for Z in (X, X + 1e6, 1e12 * X))
    assert moved.cka == pytest.approx(first.cka, rel=1e-6)
    assert moved.h_score == pytest.approx(first.h_score, rel=1e-6)
    assert huge.cka == pytest.approx(first.cka, rel=1e-9)


def test_labels_that_the_features_hold_exactly_have_a_finite_evidence():
    assert np.isfinite(logme(np.eye(3)[y], y))


def test_tensors_of_any_float_type():
    found = transferability(
        {"half": torch.from_numpy(X).half(), "double": torch.from_numpy(X)}, torch.from_numpy(y)
    )
    assert found.cka[0] == pytest.approx(found.cka[1], abs=1e-2)
