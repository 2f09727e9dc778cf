"""What a report refuses, and what it survives."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from krepes import KernelEmbedding
from krepes.explain import Concept
from krepes.report import write_report
from refusals import refuses
from report_content import content, unpacked


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).standard_normal((60, 3))
    return KernelEmbedding(3, n_landmarks=12, random_state=0).fit(X), X


def test_an_existing_file_is_not_overwritten(fitted, tmp_path):
    model, X = fitted
    path = tmp_path / "r.html"
    path.write_text("mine")
    with refuses(FileExistsError, "overwrite=True"):
        write_report(model, X, path)
    assert path.read_text() == "mine"
    assert write_report(model, X, path, overwrite=True) == path
    assert path.read_text().startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_a_failure_leaves_no_file(fitted, tmp_path):
    model, X = fitted
    with refuses(ValueError, "3 features"):
        write_report(model, X[:, :2], tmp_path / "r.html")
    with refuses(FileNotFoundError, "nowhere"):
        write_report(model, X, tmp_path / "nowhere" / "r.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0, 1]}, ("2 labels", "60 rows")),
        ({"labels": np.linspace(0, 1, 60)}, "fractions"),
        ({"columns": ["age"]}, ("values", "instead")),
        ({"columns": {"age": [1, 2]}}, "(60,)"),
        ({"columns": {"age": np.zeros(60)}, "samples": False}, "samples=False"),
        ({"n_top": 0}, "n_top=0"),
        ({"n_top": 51}, "at most 50"),
        ({"max_rows": 1.5}, "max_rows=1.5"),
        ({"probe": 0.9}, "linear_probe"),
    ],
)
def test_wrong_arguments_are_named(fitted, tmp_path, arguments, message):
    model, X = fitted
    with refuses((ValueError, TypeError), message):
        write_report(model, X, tmp_path / "r.html", **arguments)


def test_concepts_must_be_fitted_on_this_model(fitted, tmp_path):
    model, X = fitted
    with pytest.raises(NotFittedError):
        write_report(model, X, tmp_path / "r.html", concepts=[Concept(X[:9], X[9:20])])
    other = KernelEmbedding(2, n_landmarks=12, random_state=0).fit(X)
    concept = Concept(X[:9], X[9:20], n_permutations=0, n_resamples=2).fit(other)
    with refuses(ValueError, "'concept'", "model"):
        write_report(model, X, tmp_path / "r.html", concepts=[concept])


def test_a_model_must_be_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        write_report(KernelEmbedding(), np.zeros((3, 2)), tmp_path / "r.html")


def test_an_unknown_column_of_a_table_is_named(tmp_path):
    frame = pd.DataFrame({"a": np.arange(30.0) % 7, "b": np.arange(30.0) % 5})
    model = KernelEmbedding(2, n_landmarks=5, random_state=0).fit(frame)
    with refuses(ValueError, "'aa'", "'a'"):
        write_report(model, frame, tmp_path / "r.html", columns=["aa"])


def test_one_row_equal_rows_and_one_component(tmp_path):
    """Nothing varies, and there is still a page."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = KernelEmbedding(1, n_landmarks=6, random_state=0, loss="kernel_pca").fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = content(write_report(model, X[:1], tmp_path / "one.html", labels=["a"]))
        same = content(
            write_report(model, np.repeat(X[:1], 30, 0), tmp_path / "same.html", labels=["a", "b"] * 15)
        )
    assert len(unpacked(one["rows"])) == 1
    assert "two classes" in dict(one["card"])["Linear probe"]
    assert np.isfinite(unpacked(same["maps"][0]["rows"])).all()


def test_rows_without_a_label_and_columns_with_gaps(fitted, tmp_path):
    model, X = fitted
    labels = np.array(["a", "b", None] * 20, dtype=object)
    gaps = np.where(np.arange(60) % 4 == 0, np.inf, np.arange(60) / 7)
    page = content(write_report(model, X, tmp_path / "r.html", labels=labels, columns={"gaps": gaps}))
    assert (unpacked(page["labels"]["values"]).reshape(-1, 3) == [0, 1, -1]).all()
    assert np.isnan(unpacked(page["columns"][0]["values"])[::4]).all()


def test_a_row_far_from_everything_has_low_coverage(fitted, tmp_path):
    model, X = fitted
    page = content(write_report(model, np.vstack([X, [[99.0, 99, 99]]]), tmp_path / "r.html"))
    assert unpacked(page["coverage"])[-1] < page["low_coverage"] == 0.1
    assert "1 rows below 0.1" in dict(page["card"])["Coverage"]


def test_arguments_are_left_as_they_are(fitted, tmp_path):
    model, X = fitted
    before, labels = X.copy(), np.arange(60) % 3
    kept = labels.copy()
    write_report(model, X, tmp_path / "r.html", labels=labels, columns={"label": labels})
    assert (before == X).all()
    assert (kept == labels).all()
