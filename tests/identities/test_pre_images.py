"""What an inverse is equal to, and what its estimates of the error are worth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split

from krepes import KernelEmbedding, load
from krepes.base.components import named
from krepes.kernels import Gaussian, Laplacian, Linear
from krepes.losses import Loss
from krepes.preimages import fixed_point
from krepes.preimages.fixed_point import feature_point_weights
from krepes.preimages.inverse import learn_decoder, learn_errors, nearest
from krepes.preprocessing import InputSpace, Normalize
from refusals import refuses, warns_of

IRIS = load_iris().data
SMALL = {"n_components": 3, "n_landmarks": 60, "random_state": 0, "dtype": "float64"}


def draws(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_inverse_of_linear_kernel_pca_is_that_of_pca():
    """With the linear kernel, kernel PCA and every row a landmark, rows come back as from PCA."""
    X = np.random.default_rng(0).standard_normal((150, 5)) * [5, 4, 3, 0.1, 0.1] + 7
    model = KernelEmbedding(
        3, kernel="linear", loss="kernel_pca", regularization=0, landmarks=np.arange(150), dtype="float64"
    ).fit(X)
    pca = PCA(3).fit(X)
    expected = pca.inverse_transform(pca.transform(X))
    assert np.abs(model.reconstruct(X) - expected).max() < 1e-5 * np.abs(X).max()


def test_all_components_bring_landmarks_back():
    """Where the representation loses nothing, landmarks come back: here it has as many components as K_mm has rank."""
    model = KernelEmbedding(
        60,
        kernel=Gaussian(3.0),
        loss="kernel_pca",
        regularization=0,
        n_landmarks=60,
        dtype="float64",
        random_state=0,
    ).fit(IRIS)
    landmarks = model.landmarks_.numpy()
    assert np.abs(model.reconstruct(landmarks) - landmarks).max() < 0.02 * landmarks.std()
    linear = KernelEmbedding(4, kernel="linear", loss="kernel_pca", regularization=0, dtype="float64").fit(
        IRIS
    )
    assert np.abs(linear.reconstruct(IRIS) - IRIS).max() < 1e-6


def test_the_decoder_is_kernel_ridge_regression():
    """Where centres are the rows, x(z) = C^T k_z + b is scikit-learn's kernel ridge regression, with an intercept."""
    Z = draws(80, 2)
    X = torch.cat([Z.square(), Z[:, :1] * Z[:, 1:]], dim=1) + draws(80, 3, 1)
    decoder, new = learn_decoder(Z, X, Z).decoder, draws(10, 2, 2)
    K, K_new = (decoder.kernel(decoder.scaled(rows), decoder.centres) for rows in (Z, new))
    differences = [
        np.abs(_ridge(K, K_new, X, p) - decoder(new).numpy()).max() for p in 80 * np.logspace(-11, -2, 10)
    ]
    assert min(differences) < 1e-5  # eigenvalues of K below a cut are left out


def _ridge(K: torch.Tensor, K_new: torch.Tensor, X: torch.Tensor, penalty: float) -> np.ndarray:
    """Kernel ridge regression with an intercept, by centring the kernel."""
    H = np.eye(len(K)) - 1 / len(K)
    centred = H @ K.numpy() @ H
    machine = KernelRidge(alpha=penalty, kernel="precomputed").fit(centred, H @ X.numpy())
    return machine.predict((K_new.numpy() - K.numpy().mean(0)) @ H) + X.numpy().mean(0)


def test_left_out_rows_are_decoded_as_by_another_fit():
    """The errors that estimates learn from are those of decoders that have not seen the row."""
    Z, X = draws(40, 2), draws(40, 3, 1)
    found = learn_decoder(Z, X, Z)
    Phi = found.features(found.decoder.scaled(Z))
    penalties = [p for p in np.logspace(-11, -2, 10) * 40 if _same(found.left_out, p, found)]
    assert penalties
    for i in (0, 7, 39):
        others = np.delete(np.arange(40), i)
        W = _centred_ridge(Phi[others], X[others], penalties[0])
        left_out = (Phi[i] - Phi[others].mean(0)) @ W + X[others].mean(0)
        assert (found.predictions[i] - left_out).abs().max() < 1e-6


def _same(left_out, penalty, found) -> bool:
    return bool((left_out.predictions(penalty) - found.predictions).abs().max() < 1e-12)


def _centred_ridge(Phi: torch.Tensor, X: torch.Tensor, penalty: float) -> torch.Tensor:
    P, Y = Phi - Phi.mean(0), X - X.mean(0)
    return torch.linalg.solve(P.mT @ P + penalty * torch.eye(P.shape[1]).double(), P.mT @ Y)


def test_nearest_is_a_mean_of_five_distances():
    Z, centres = draws(7, 3), draws(9, 3, 1)
    expected = [np.sort([(z - c).norm().item() for c in centres])[:5].mean() for z in Z]
    assert np.allclose(nearest(Z, centres), expected)
    own = [
        np.sort([(z - c).norm().item() for c in Z if c is not z and not torch.equal(c, z)])[:5].mean()
        for z in Z
    ]
    assert np.allclose(nearest(Z, Z, are_centres=True), own)


def test_the_mean_error_of_rows_left_out_is_expected():
    """The estimate is right on average over the rows that it was learned from, and nine of ten lie below `upper`."""
    Z = draws(300, 2)
    X = torch.stack([Z[:, 0].sin(), Z[:, 1].square(), 0.3 * draws(300, 1, 1)[:, 0]], dim=1)
    found = learn_decoder(Z, X, Z)
    figures, coefficients, constant = learn_errors(found, X, Z, are_centres=True)
    error = (X - found.predictions).norm(dim=1) / figures.spread
    g = found.decoder.kernel(found.decoder.scaled(Z), found.decoder.centres) @ coefficients + constant
    expected, upper, _ = figures.estimate(g, nearest(found.decoder.scaled(Z), found.decoder.centres, True))
    assert expected.mean().item() == pytest.approx(error.mean().item(), rel=0.15)
    assert 0.85 < (error <= upper).double().mean() < 0.97


@pytest.mark.parametrize("learn_from_rows", [False, True])
def test_estimated_errors_rank_and_cover(learn_from_rows):
    """On held-out rows, larger estimates go with larger errors, and about nine of ten errors lie below `upper`."""
    train, test = train_test_split(load_digits().data, test_size=500, random_state=0)
    model = KernelEmbedding(8, n_landmarks=300, landmarks="uniform", random_state=0).fit(train)
    if learn_from_rows:
        model.fit_inverse(train)
    rows, error = model.reconstruct(test, return_error=True)
    assert spearmanr(error.expected, error.actual).statistic > 0.45
    assert 0.84 < (error.actual <= error.upper).mean() < 0.97
    assert error.expected.mean() == pytest.approx(error.actual.mean(), rel=0.1)
    spread = np.sqrt(np.square(train - train.mean(0)).sum(1).mean())
    assert np.allclose(error.actual, np.linalg.norm(rows - test, axis=1) / spread, rtol=0.1)


def test_rows_come_back_better_than_from_pca_and_with_less_noise():
    train, test = train_test_split(load_digits().data, test_size=400, random_state=0)
    model = KernelEmbedding(
        8, loss="kernel_pca", kernel=Gaussian("4 median"), n_landmarks=400, random_state=0
    )
    model.fit(train)
    pca = PCA(8).fit(train)

    def error(rows, decoded):
        return np.square(rows - decoded).sum(1).mean()

    assert error(test, model.reconstruct(test)) < 0.8 * error(
        test, pca.inverse_transform(pca.transform(test))
    )
    noisy = test + np.random.default_rng(0).normal(0, 4, test.shape)
    assert error(test, model.reconstruct(noisy)) < 0.6 * error(test, noisy)
    assert error(test, model.reconstruct(noisy)) < error(test, pca.inverse_transform(pca.transform(noisy)))


def test_rows_of_the_data_teach_more_than_landmarks():
    train, test = train_test_split(load_digits().data, test_size=400, random_state=0)
    model = KernelEmbedding(16, n_landmarks=100, random_state=0).fit(train)
    before = np.square(test - model.reconstruct(test)).sum()
    assert np.square(test - model.fit_inverse(train).reconstruct(test)).sum() < 0.95 * before


def test_far_away_nothing_is_trusted():
    model = KernelEmbedding(**SMALL).fit(IRIS)
    Z = model.transform(IRIS)
    _, near = model.inverse_transform(Z, return_error=True)
    _, far = model.inverse_transform(Z + 100 * np.abs(Z).max(), return_error=True)
    assert near.trusted.mean() > 0.95
    assert not far.trusted.any()
    assert far.expected.min() > near.expected.max()
    with warns_of(UserWarning, "150 of 150"):
        model.inverse_transform(Z + 100 * np.abs(Z).max())
    assert not model.reconstruct(IRIS + 1e4, return_error=True)[1].trusted.any()  # no landmark is like them


def test_reconstruct_is_the_inverse_of_transform():
    model = KernelEmbedding(**SMALL).fit(IRIS)
    both = model.reconstruct(IRIS), model.inverse_transform(model.transform(IRIS))
    assert np.abs(both[0] - both[1]).max() < 1e-9
    parts, errors = zip(*model.iter_reconstruct(IRIS, batch_rows=40))
    assert np.abs(np.concatenate(parts) - both[0]).max() < 1e-9
    assert sum(len(error.actual) for error in errors) == len(IRIS)


@pytest.mark.parametrize("loss", sorted(named(Loss)))
def test_every_loss_has_an_inverse(loss):
    settings = {"solver__max_epochs": 3} if loss in ("simclr", "byol", "autoencoder") else {}
    model = KernelEmbedding(loss=loss, **SMALL).set_params(**settings).fit(IRIS)
    rows, error = model.reconstruct(IRIS, return_error=True)
    assert rows.shape == IRIS.shape
    assert error.actual.mean() < 0.5


def test_the_same_bits_again():
    first, second = (KernelEmbedding(**SMALL).fit(IRIS).reconstruct(IRIS) for _ in range(2))
    assert np.array_equal(first, second)


def test_single_and_double_precision_agree():
    single, double = (
        KernelEmbedding(**SMALL | {"dtype": dtype}).fit(IRIS).reconstruct(IRIS)
        for dtype in ("float32", "float64")
    )
    assert single.dtype == np.float32
    assert double.dtype == np.float64
    assert np.abs(single - double).max() < 0.02 * IRIS.std()


def test_data_far_from_zero_come_back_there():
    X = IRIS + 1e7
    model = KernelEmbedding(3, kernel="gaussian", n_landmarks=60, random_state=0).fit(X)
    rows = model.reconstruct(X)
    assert rows.dtype == np.float64
    assert np.abs(rows - X).mean() < 0.3


# Forms of the data


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("preprocess", ["auto", "normalize"])
def test_images_come_back_with_shape_and_range(dtype, preprocess):
    images = load_digits().images[:300] * (15 if dtype == np.uint8 else 1 / 16)
    images = np.stack([images, images[:, ::-1]], axis=3).astype(dtype)  # two channels
    model = KernelEmbedding(8, loss="kernel_pca", preprocess=preprocess, n_landmarks=150, random_state=0).fit(
        images
    )
    rows = model.reconstruct(images)
    assert rows.shape == images.shape
    assert rows.min() >= -1e-6 * images.max()
    assert rows.max() <= images.max() * (1 + 1e-6)
    assert np.square(rows - images).mean() < 0.4 * images.var()


def people(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 6, n)
    age = [None if u < 0.1 else 30 + 8 * float(np.sin(a)) for u, a in zip(rng.random(n), t)]
    town = ["Bonn" if a < 2 else "Köln" if a < 4 else "Trier" for a in t]
    return pa.table({"age": age, "income": 1000 * t, "town": town})


def test_tables_come_back_in_their_columns():
    """Numbers unscaled, missing ones missing, categories by their largest level."""
    table = people()
    model = KernelEmbedding(6, loss="kernel_pca", n_landmarks=150, random_state=0).fit(table)
    rows = model.reconstruct(table)
    assert rows.column_names == ["age", "income", "town"]
    income, rebuilt = (np.asarray(t.column("income")) for t in (table, rows))
    assert np.abs(rebuilt - income).mean() < 0.1 * income.std()
    same = [a == b for a, b in zip(table.column("town").to_pylist(), rows.column("town").to_pylist())]
    assert np.mean(same) > 0.95
    missing = [(a is None) == (b is None) for a, b in zip(table["age"].to_pylist(), rows["age"].to_pylist())]
    assert np.mean(missing) > 0.95


def test_restored_rows_are_the_inverse_of_encoding():
    """Encoded rows come back exactly, for every form of the data."""
    table = people()
    space = KernelEmbedding(3, n_landmarks=20, dtype="float64", random_state=0).fit(table).input_space_
    back = space.restored(space.tensor(table, torch.float64))
    assert back.column("town").to_pylist() == table.column("town").to_pylist()
    for name in ("age", "income"):
        expected, found = (np.array(t.column(name).to_pylist(), dtype=float) for t in (table, back))
        assert np.allclose(found, expected, atol=1e-4, equal_nan=True)
    images = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 2), dtype=np.uint8)
    for normalize in (None, Normalize([0.1, 0.2], [0.3, 0.4])):
        space = InputSpace("images", (3, 5, 2), 255.0, normalize=normalize)
        assert np.allclose(space.restored(space.tensor(images, torch.float64).flatten(1)), images)


# Files


@pytest.mark.parametrize("moments", [True, False])
@pytest.mark.parametrize("learn_from_rows", [True, False])
def test_a_saved_model_reconstructs_the_same(tmp_path, moments, learn_from_rows):
    model = KernelEmbedding(**SMALL).fit(IRIS)
    if learn_from_rows:
        model.fit_inverse(IRIS)
    rows, error = model.reconstruct(IRIS, return_error=True)
    model.save(tmp_path / "m.krepes", moments=moments)
    again, estimate = load(tmp_path / "m.krepes").reconstruct(IRIS, return_error=True)
    assert np.abs(again - rows).max() < 1e-8
    assert np.allclose(estimate.expected, error.expected, rtol=1e-4)


def test_more_rows_make_another_inverse():
    model = KernelEmbedding(**SMALL).partial_fit(IRIS[:100]).fit_inverse(IRIS[:100])
    before = model.inverse_transform(model.transform(IRIS[:5]))
    model.partial_fit(IRIS[100:])
    after = model.inverse_transform(model.transform(IRIS[:5]))
    assert not np.array_equal(before, after)
    assert np.abs(after - IRIS[:5]).mean() < 0.5


# Fixed points


def naive_fixed_point(landmarks, weights, x, lengthscale, steps):
    for _ in range(steps):
        k = [w * np.exp(-np.sum((x - y) ** 2) / (2 * lengthscale**2)) for w, y in zip(weights, landmarks)]
        x = sum(a * y for a, y in zip(k, landmarks)) / sum(k)
    return x


def test_fixed_point_is_the_iteration_of_mika():
    landmarks, start = draws(12, 2).numpy(), draws(3, 2, 2).numpy()
    weights = draws(3, 12, 1).abs().numpy()
    found = fixed_point(
        Gaussian(1.5), *(torch.from_numpy(a) for a in (landmarks, weights, start)), max_iter=500, tol=0
    )
    for i in range(3):
        assert (
            np.abs(found[i].numpy() - naive_fixed_point(landmarks, weights[i], start[i], 1.5, 500)).max()
            < 1e-6
        )


@pytest.mark.parametrize("kernel", [Gaussian(1.5), Laplacian(2.0)])
def test_fixed_point_never_moves_away(kernel):
    """<phi(x), P> does not fall, whatever the signs of the weights are."""
    landmarks, weights, start = draws(12, 2), draws(20, 12, 1), draws(20, 2, 2)
    found = fixed_point(kernel, landmarks, weights, start)
    before, after = ((kernel(x, landmarks) * weights).sum(1) for x in (start, found))
    assert found.isfinite().all()
    assert (after >= before - 1e-12).all()


def test_feature_points_have_the_representations_asked_for():
    """W^T P + gamma = z."""
    model = KernelEmbedding(3, kernel=Gaussian(1.5), loss="kernel_pca", n_landmarks=30, dtype="float64").fit(
        IRIS
    )
    solution, Z = model._solved(), torch.from_numpy(model.transform(IRIS))
    g = feature_point_weights(model.space_, solution.A, solution.gamma, model.moments_.mean, Z)
    again = g @ model.kernel_(model.landmarks_) @ solution.A + solution.gamma
    assert (again - Z).abs().max() < 1e-6


def test_fixed_point_needs_a_kernel_of_the_distance():
    with refuses(ValueError, "Linear()", "fixed_point", "kernel", "distance"):
        fixed_point(Linear(), draws(3, 2), draws(1, 3), draws(1, 2))
