"""Wild cells, extreme rows and columns in other units: the rest is learned all the same, and a warning names them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA

from krepes import KernelEmbedding, TableEncoder
from krepes.base.column_scale import column_scale, usual_range
from krepes.kernels import ArcCosine, Gaussian, Laplacian, Linear, Matern
from krepes.views import Tabular
from refusals import warns_of
from tolerances import assert_same

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 5))


def explained(Z: np.ndarray, column: np.ndarray) -> float:
    """R^2 of a column predicted from Z by least squares."""
    Z = np.column_stack([Z, np.ones(len(Z))])
    residual = column - Z @ np.linalg.lstsq(Z, column, rcond=None)[0]
    return 1 - residual.var() / column.var()


def with_cell(rows: np.ndarray, value: float) -> np.ndarray:
    rows = rows.copy()
    rows[0, 0] = value
    return rows


# M3: the noise of views


def test_a_bad_cell_does_not_ruin_its_column():
    """M3: R^2 of the column from Z fell from 0.973 to 0.002."""
    model = KernelEmbedding(16, kernel=Gaussian(3.0), n_landmarks=300, random_state=0)
    for rows in (X, with_cell(X, 1000.0)):
        Z = model.fit(rows).transform(rows)
        assert explained(Z[1:], rows[1:, 0]) > 0.97


@pytest.mark.parametrize("views", [Tabular(drop=0.3), Tabular(noise=0.1)], ids=str)
def test_noise_and_fill_are_those_without_the_bad_cell(views):
    clean = torch.from_numpy(X)
    fitted = views.fitted(torch.from_numpy(with_cell(X, 1000.0)))
    torch.testing.assert_close(fitted.scale_[0], clean[1:, 0].std(correction=0))
    torch.testing.assert_close(fitted.mean_[0], clean[1:, 0].mean())
    torch.testing.assert_close(fitted.scale_[1:], clean[:, 1:].std(0, correction=0))


@pytest.mark.parametrize("cell", [20.0, 1000.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_expectations_beside_a_bad_cell(cell, dtype):
    """A series over the whole range missed the kernel's peak, and values were too small by a factor of three."""
    rows = torch.from_numpy(with_cell(X, cell))
    views, landmarks, length = Tabular(drop=0.3).fitted(rows.to(dtype)), torch.from_numpy(X[5:25]), 2.0
    found = views.expected(Gaussian(length), rows[:10].to(dtype), landmarks.to(dtype))
    expected = torch.ones(10, 20, dtype=torch.float64)
    for j, (mean, scale) in enumerate(zip(views.mean_, views.scale_)):
        for i in range(10):
            variance = length**2 + (0.05 * scale) ** 2

            def smoothed(x: torch.Tensor, z: torch.Tensor, variance: torch.Tensor = variance) -> torch.Tensor:
                return length / variance.sqrt() * torch.exp(-((x - z) ** 2) / (2 * variance))

            z = landmarks[:, j]
            expected[i] *= 0.7 * smoothed(rows[i, j], z) + 0.3 * smoothed(mean, z)
    assert_same(found, expected, dtype)


COLUMNS = {
    "Gaussian": lambda g, n: g.normal(size=n),
    "uniform": lambda g, n: g.random(n),
    "exponential": lambda g, n: g.exponential(size=n),
    "Laplace": lambda g, n: g.laplace(size=n),
    "two far groups": lambda g, n: (
        np.where(g.random(n) < 0.8, 0.01, 1.0) * g.normal(size=n) + (g.random(n) < 0.2)
    ),
    "counts": lambda g, n: g.poisson(2.0, n),
    "rare counts": lambda g, n: g.poisson(0.05, n),
    "one-hot": lambda g, n: g.random(n) < 0.3,
    "rare one-hot": lambda g, n: g.random(n) < 0.004,
    "zeros and numbers": lambda g, n: np.where(g.random(n) < 0.9, 0.0, 1000 + g.normal(size=n)),
    "constant": lambda g, n: np.full(n, 0.1),
}


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(COLUMNS)),
    st.integers(1, 3000),
    st.integers(0, 2**31 - 1),
    st.floats(1e-6, 1e6),
    st.floats(-1e6, 1e6),
)
def test_ordinary_columns_have_their_plain_deviation(kind, n, seed, factor, shift):
    """To the bit, for columns of all kinds without wild cells: the rule changes nothing for them."""
    column = np.asarray(COLUMNS[kind](np.random.default_rng(seed), n), dtype=np.float64)
    values = torch.from_numpy(factor * column + shift)[:, None]
    low, high = usual_range(values)
    if kind in ("Gaussian", "uniform", "one-hot", "rare one-hot", "zeros and numbers", "constant") or n > 200:
        assert bool(((values >= low) & (values <= high)).all())
    views = Tabular().fitted(values)
    if bool(((values >= low) & (values <= high)).all()):
        plain = values.std(correction=0) if len(values.unique()) > 1 else torch.tensor(0.0).double()
        torch.testing.assert_close(views.scale_[0], plain, rtol=1e-9, atol=1e-12 * abs(shift))


@settings(max_examples=40)
@given(st.integers(30, 3000), st.integers(1, 3), st.floats(1.5, 12), st.integers(0, 2**31 - 1))
def test_few_wild_cells_leave_a_gaussian_columns_deviation(n, n_wild, exponent, seed):
    """Up to 2 % of cells at any distance: the deviation stays within sqrt(1 + 400 n_wild / n) of that of the others."""
    generator = np.random.default_rng(seed)
    column = generator.normal(size=n)
    wild = min(n_wild, max(1, n // 50))
    column[:wild] = generator.choice([-1, 1], wild) * 10.0**exponent
    found = column_scale(torch.from_numpy(column)[:, None])[1].item()
    others = column[wild:].std()
    allowed = np.sqrt(1 + 900 * wild / n) if exponent < 2 else 1.0
    sampling = 1.35 if n > 1024 else 1.0  # then the scale is that of 1024 rows
    assert others / sampling / 1.1 <= found <= 1.1 * sampling * allowed * others


# The encoder


@pytest.mark.parametrize("n", [100, 1473])
def test_a_bad_cell_does_not_squeeze_its_column_in_a_table(n):
    """With the plain deviation the other rows would lie within 0.1 of one another."""
    frame = pd.DataFrame(with_cell(X[:n], 1e6), columns=list("abcde"))
    encoder = TableEncoder(dtype="float64").fit(frame)
    encoded = encoder.transform(frame)
    assert encoded[1:, 0].std() == pytest.approx(1.0, abs=1e-9)
    assert encoded[1:, 0].mean() == pytest.approx(0.0, abs=1e-9)
    assert "without extreme values, up to 1e+06" in encoder.roles_[0]["detail"]
    np.testing.assert_allclose(encoded[:, 1:].std(0), 1.0)
    with warns_of(UserWarning, "Row 0", "1,000"):
        Z = KernelEmbedding(16, kernel=Gaussian(3.0), n_landmarks=100, random_state=0).fit_transform(frame)
    assert explained(Z[1:], X[1:n, 0]) > 0.9


def test_heavy_tails_keep_their_deviation():
    """They are part of the column; so are moderate outliers, and columns of mostly one value."""
    tail = np.exp(2 * rng.normal(size=3000))
    mostly = np.where(rng.random(3000) < 0.95, 0.0, rng.exponential(1000, 3000))
    frame = pd.DataFrame(
        {"tail": tail, "moderate": with_cell(rng.normal(size=(3000, 1)), 50.0)[:, 0], "mostly": mostly}
    )
    for column in TableEncoder(tails="plain").fit(frame).columns_:
        assert column.scale == pytest.approx(frame[column.name].std(ddof=0), rel=1e-12)


# U16: extreme rows


@pytest.mark.parametrize("landmarks", ["pivoted_cholesky", "kmeans_plus_plus"])
@pytest.mark.parametrize("loss", ["spectral_contrastive", "kernel_pca"])
@pytest.mark.parametrize("kernel", [Gaussian(), Matern(), Laplacian()], ids=str)
def test_an_extreme_row_leaves_the_others_their_representation(kernel, loss, landmarks):
    """U16: a row times 1e6 made "all samples have the same features". The others come out as without the row.

    They differ no more than by other landmarks.
    """
    rows = X.copy()
    rows[0] *= 1e6
    options = {"kernel": kernel, "loss": loss, "landmarks": landmarks, "n_landmarks": 150}

    def gram(data: np.ndarray, seed: int) -> np.ndarray:
        Z = KernelEmbedding(8, **options, random_state=seed).fit(data).transform(rows[1:])
        Z = Z - Z.mean(0)
        return Z @ Z.T

    without, other_landmarks = gram(rows[1:], 0), gram(rows[1:], 1)
    with warns_of(UserWarning, "Row 0", "1,000"):
        found = gram(rows, 0)
    assert np.linalg.norm(found - without) <= 3 * np.linalg.norm(other_landmarks - without)


def test_extreme_rows_are_named_by_their_place_in_the_data():
    rows = X.copy()
    rows[[7, 400, 1200, 1300]] *= 1e6
    with warns_of(UserWarning, "Rows 7", "400", "1200"):
        KernelEmbedding(4, n_landmarks=50, random_state=0).fit(rows)
    weight = np.ones(len(rows))
    weight[:100] = 0
    with warns_of(UserWarning, "Rows 400", "1200", "1300"):
        KernelEmbedding(4, n_landmarks=50, random_state=0).fit(rows, sample_weight=weight)


@pytest.mark.filterwarnings("ignore:n_components")
def test_kernels_that_grow_say_that_they_see_little_else():
    rows = X.copy()
    rows[0] *= 1e6
    with warns_of(UserWarning, "kernel", "grows"):
        KernelEmbedding(4, kernel="linear", loss="kernel_pca", n_landmarks=50, random_state=0).fit(rows)


# U17: columns in other units


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (load_wine, "Column 12 makes up 99.8 %"),
        (load_breast_cancer, r"Columns 23, 3 make up 99.1 %"),
    ],
)
@pytest.mark.parametrize("kernel", ["gaussian", Laplacian(norm=1), Linear(), ArcCosine()], ids=str)
def test_columns_that_dominate_are_named_once(data, names, kernel):
    """U17: 70 % against 98 % after scaling, without a word."""
    rows = data().data
    model = KernelEmbedding(4, kernel=kernel, loss="kernel_pca", n_landmarks=50, random_state=0)
    with warns_of(UserWarning, "preprocess='table'") as found:
        model.fit(rows)
    assert sum("of the spread" in str(warning.message) for warning in found) == 1
    assert any(str(warning.message).startswith(names[:8]) for warning in found)


@pytest.mark.parametrize("preprocess", ["table", None])
def test_what_the_warning_says_silences_it(preprocess):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelEmbedding(4, n_landmarks=50, preprocess=preprocess, random_state=0).fit(load_wine().data)


def test_a_lengthscale_per_column_is_a_scale_per_column():
    rows = load_wine().data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelEmbedding(4, kernel=Gaussian(rows.std(0)), n_landmarks=50, random_state=0).fit(rows)


def test_data_in_one_unit_do_not_warn():
    """Measurements in centimetres, pixels, spectra, standardised columns, principal components, one-hot columns."""
    digits, grid = load_digits().data, np.linspace(0, 1, 200)
    spectra = sum(rng.random((300, 1)) * np.exp(-(((grid - c) / 0.03) ** 2) / 2) for c in (0.2, 0.5, 0.8))
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(list("uvw"), 300)})
    for rows in (
        *(load_iris().data, load_diabetes().data, digits, spectra + 0.01 * rng.normal(size=spectra.shape)),
        *(X, PCA(20).fit_transform(digits), np.eye(10)[rng.integers(0, 10, 300)], frame, X[:, :1], X[:, :2]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            KernelEmbedding(2, loss="kernel_pca", n_landmarks=50, random_state=0).fit(rows)
