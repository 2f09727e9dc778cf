"""Sparse rows that are not what they should be, and what cannot be done with them: errors that say what to do."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import scipy.sparse
import torch

import krepes.base.storage.packing
from krepes import KernelAutoencoder, KernelEmbedding
from krepes.base.rows import SparseRows
from krepes.kernels import ArcCosine, Gaussian
from krepes.machines import KernelRidgeClassifier
from krepes.sources import open_source
from krepes.views import Image, Sparse
from refusals import refuses
from sample_objects import sparse_rows

N, WIDTH = 60, 30
X = abs(sparse_rows(N, WIDTH, 0.2, np.random.default_rng(0)))
Y = np.arange(N) % 2


def fitted(**parameters) -> KernelEmbedding:
    return KernelEmbedding(2, loss="kernel_pca", n_landmarks=10, random_state=0, **parameters).fit(X)


def test_another_width_is_refused():
    for other in (X[:, :20], X[:, :20].toarray()):
        with refuses(ValueError, "X", "20 features", "30 features"):
            fitted().transform(other)
    with refuses(ValueError, "20 features", "30"):
        Gaussian(1.0)(X[:, :20], X)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named_by_their_columns(value):
    bad = X.copy()
    bad.data[[3, 40]] = value
    columns = sorted(set(bad.indices[[3, 40]]))
    message = f"contains {'NaN' if np.isnan(value) else 'infinity'} in columns {', '.join(map(str, columns))}"
    with refuses(ValueError, message):
        KernelEmbedding(2).fit(bad)
    with refuses(ValueError, message):
        fitted().transform(bad)


def unsorted(X):
    return scipy.sparse.csr_array(
        (X.data[::-1], X.indices[::-1], len(X.data) - X.indptr[::-1]), shape=X.shape
    )[::-1]


def duplicated(X):
    """Every entry in two halves."""
    return scipy.sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )


def with_zeros(X):
    """Some zeros are there as entries."""
    found = X.tolil(copy=True).tocsr()
    found.data[::5] = 0
    return found


def test_the_form_of_the_matrix_does_not_matter_and_stays():
    """Unsorted indices, duplicates and stored zeros: the numbers count, and what was given is not changed."""
    plain = scipy.sparse.csr_array(with_zeros(X).toarray())
    for given, expected in ((unsorted(X), X), (duplicated(X), X), (with_zeros(X), plain)):
        before = [part.copy() for part in (given.data, given.indices, given.indptr)]
        rows = SparseRows(given)
        assert np.array_equal(rows.toarray(), expected.toarray())
        assert np.allclose(Gaussian(1.0)(given), Gaussian(1.0)(expected), atol=1e-15)
        for part, same in zip((given.data, given.indices, given.indptr), before):
            assert np.array_equal(part, same)


def test_integers_and_truth_values_are_numbers():
    counts = (X * 10).astype(np.int64)
    expected = KernelEmbedding(2, n_landmarks=10, random_state=0).fit(counts.astype(float)).transform(counts)
    for given in (counts, counts.astype(np.uint8), counts.astype(np.int32)):
        assert np.allclose(
            KernelEmbedding(2, n_landmarks=10, random_state=0).fit(given).transform(given), expected
        )
    KernelEmbedding(2, n_landmarks=10, random_state=0).fit(X > 0.5)


def test_empty_rows_are_rows():
    some = X.tolil(copy=True)
    some[::3] = 0
    some = some.tocsr()
    for loss in ("kernel_pca", "spectral_contrastive"):
        for kernel in ("auto", "cosine", "linear"):
            Z = (
                KernelEmbedding(2, kernel=kernel, loss=loss, n_landmarks=20, random_state=0)
                .fit(some)
                .transform(some)
            )
            assert np.isfinite(Z).all()
            assert np.allclose(Z[::3], Z[0])


def test_a_matrix_without_entries_has_nothing_to_learn_from():
    empty = scipy.sparse.csr_array((N, WIDTH))
    with refuses(ValueError, "landmarks", "negative"):
        KernelEmbedding(2, kernel="linear").fit(empty)


CANNOT = {
    "kernel": (
        lambda: KernelEmbedding(2, kernel=ArcCosine()).fit(X),
        "TruncatedSVD",
    ),
    "function": (lambda: KernelEmbedding(2, kernel=lambda a, b: a).fit(X), ("sparse", "form")),
    "objects": (lambda: KernelEmbedding(2, kernel="spectrum").fit(X), ("compares", "objects")),
    "kernel itself": (lambda: ArcCosine()(X), "toarray()"),
    "image views": (lambda: KernelEmbedding(2, views=Image()).fit(X), "views='sparse'"),
    "tabular views": (lambda: KernelEmbedding(2, views="tabular").fit(X), "views='sparse'"),
    "table": (lambda: KernelEmbedding(2, preprocess="table").fit(X), ("60", "30", "sparse")),
    "normalize": (lambda: KernelEmbedding(2, preprocess="normalize").fit(X), ("sparse", "matrix")),
    "autoencoder": (lambda: KernelAutoencoder(2).fit(X), "TruncatedSVD"),
    "autoencoder loss": (
        lambda: KernelEmbedding(2, loss="autoencoder").fit(X),
        "TruncatedSVD",
    ),
    "inverse": (lambda: fitted().inverse_transform(np.zeros((1, 2))), ("rebuild", "sparse")),
    "columns": (
        lambda: KernelRidgeClassifier(n_landmarks=10).fit(X, Y).column_importances(),
        ("importances", "Columns"),
    ),
    "views unfitted": (lambda: Sparse().view(SparseRows(X), torch.arange(N), 0, 0), "views.fitted"),
    "dense landmarks": (lambda: Gaussian(1.0)(X.toarray(), X), ("compare", "sparse")),
    "array of": (lambda: np.asarray(SparseRows(X)), ("dense", "array")),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_done_says_what_can(name):
    call, message = CANNOT[name]
    with refuses((ValueError, TypeError), message):
        call()


# Files


def written(path, **changed):
    """A file of `scipy.sparse.save_npz` with some of its arrays exchanged."""
    parts = {"format": np.array(b"csr"), "shape": np.array(X.shape), "data": X.data, "indices": X.indices}
    parts |= {"indptr": X.indptr} | changed
    np.savez(path, **{name: part for name, part in parts.items() if part is not None})
    return path


def falling(edges: np.ndarray) -> np.ndarray:
    found = edges.copy()
    found[3], found[4] = found[4] + 1, found[3]
    return found


LIES = {
    "more rows": ({"shape": np.array([N + 1, WIDTH])}, "arrays"),
    "very many rows": ({"shape": np.array([10**18, WIDTH])}, "cannot be"),
    "very many columns": ({"shape": np.array([N, 10**12])}, "cannot be"),
    "fewer columns": ({"shape": np.array([N, WIDTH - 5])}, ("0", "24", "column")),
    "negative shape": ({"shape": np.array([-N, WIDTH])}, "cannot be"),
    "shape in words": ({"shape": np.array(["60", "30"])}, "cannot be"),
    "three dimensions": ({"shape": np.array([N, WIDTH, 1])}, "cannot be"),
    "no rows": ({"shape": np.array([0, WIDTH]), "indptr": np.zeros(1, int)}, "0 sample"),
    "indices missing": ({"indices": X.indices[:-3]}, "arrays"),
    "negative column": ({"indices": -X.indices - 1}, ("column", "indices")),
    "indices that are not whole": ({"indices": X.indices / 1.0}, ("indices", "integers")),
    "edges beyond the end": ({"indptr": X.indptr * 3}, "indptr"),
    "edges that fall": ({"indptr": falling(X.indptr)}, "indptr"),
    "edges that begin late": ({"indptr": X.indptr + 1}, "indptr"),
    "complex": ({"data": X.data * 1j}, ("supported", "Complex")),
    "text": ({"data": X.data.astype(str)}, ("array", "numbers")),
    "a matrix of values": ({"data": X.data[None]}, "dimension"),
    "unknown format": ({"format": np.array(b"xyz")}, "'xyz'"),
    "no format": ({"format": np.array(3.0)}, ("csr", "csc")),
    "rows beyond the end": (
        {"format": np.array(b"coo"), "row": np.full(X.nnz, N), "col": X.indices},
        "index",  # by scipy, in other words with every version
    ),
    "no array": ({"indptr": None}, "array"),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("compressed", [True, False])
def test_a_file_that_lies_is_refused(name, compressed, tmp_path):
    changed, message = LIES[name]
    path = written(tmp_path / "X.npz", **changed)
    if compressed:
        with np.load(path) as file:
            np.savez_compressed(path, **{key: file[key] for key in file.files})
    with refuses(ValueError, message):
        list(open_source(path).batches(7))


def test_pickled_objects_are_never_read(tmp_path):
    path = written(tmp_path / "X.npz", data=np.array([object()] * X.nnz))
    with refuses(ValueError, "unpickled"):
        open_source(path)


def test_a_header_that_declares_more_than_there_is_allocates_nothing(tmp_path):
    path = tmp_path / "X.npz"
    written(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data.npy"] = members["data.npy"].replace(
        f"({X.nnz},)".encode(), b"(9999999999999,)"[: len(f"({X.nnz},)")]
    )
    huge = np.lib.format.header_data_from_array_1_0(X.data) | {"shape": (10**14,)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            with archive.open(name, "w") as stream:
                if name == "data.npy":
                    np.lib.format.write_array_header_1_0(stream, huge)
                    stream.write(X.data.tobytes())
                else:
                    stream.write(content)
    with refuses(ValueError, "truncated", "damaged"):
        open_source(path)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    path = written(tmp_path / "X.npz")
    source = open_source(path)
    path.write_bytes(path.read_bytes()[:-700])
    with refuses(ValueError, "changed", "opened"):
        list(source.batches(7))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(source.batches(7))


def test_landmarks_in_a_forged_file_are_checked(tmp_path):
    rows = SparseRows(X)
    for name, wrong in (
        ("columns", rows.columns + WIDTH),
        ("edges", rows.edges * 2),
        ("columns", rows.columns / 1.0),
    ):
        tensors: dict[str, torch.Tensor] = {}
        entry = krepes.base.storage.packing.pack(rows, "landmarks", tensors)
        tensors[f"landmarks.{name}"] = torch.from_numpy(wrong)
        with refuses(ValueError, "sparse", "rows"):
            krepes.base.storage.packing.unpack(entry, tensors)
