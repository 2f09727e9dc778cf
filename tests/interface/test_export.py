"""Models as torch modules and ONNX files say what krepes says."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from exported_models import assert_near, scored
from krepes import KernelAutoencoder, KernelEmbedding, TableEncoder
from krepes.base.components import subclasses
from krepes.export import ExportError, program_of
from krepes.export.kernel_formulas import REASONS, diagonal, values
from krepes.export.onnx_file import description_of
from krepes.export.program import Port, Program
from krepes.export.torch_module import KernelModule
from krepes.kernels import (
    ArcCosine,
    Automatic,
    ChiSquared,
    ColumnKernel,
    Cosine,
    Gaussian,
    Gower,
    InfiniteWidth,
    Intersection,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    ObjectKernel,
    Polynomial,
    Precomputed,
    Reweighted,
    Sigmoid,
    Spectrum,
)
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2
CLASSES = np.array(["low", "middle", "high"])[np.digitize(Y, [0.0, 0.6])]
FAST = {"kernel": "gaussian", "lengthscale": "median", "input_metric": None, "random_state": 0}
KERNELS = [
    Gaussian(),
    Gaussian([1.0, 2.0, 3.0, 4.0]),
    Laplacian(norm=1),
    Laplacian(),
    Matern(nu=0.5),
    Matern(),
    Matern(nu=2.5),
    Linear(),
    Polynomial(),
    Sigmoid(),
    Cosine(),
    ArcCosine(depth=2),
    ArcCosine(degree=0),
    InfiniteWidth(),
    InfiniteWidth("nngp", bias_variance=0.3, depth=2),
    InfiniteWidth(activation="erf", depth=2),
    InfiniteWidth(activation="erf", bias_variance=0.5, weight_variance=1.5),
    Gower(),
    Gower(combine="mean", profile="gaussian"),
    Reweighted(Gaussian(1.0), np.diag([1.0, 2.0, 0.0, 0.5]) + 0.1),
    Reweighted(Laplacian(1.0, norm=1), [1.0, 2.0, 0.0, 0.5]),
    Gaussian() + Laplacian(norm=1),
    2.0 * (Gaussian() * Linear()),
    ColumnKernel([("a", Gaussian(1.0), slice(2)), ("b", Linear(), slice(2, 4))], weights=[1.0, 0.5]),
    ColumnKernel([("a", Gaussian(1.0), slice(2)), ("b", Linear(), slice(2, 4))], combine="product"),
]
HISTOGRAMS = [ChiSquared(), ChiSquared(additive=True), Intersection()]


def table_feeds(model, frame):
    """The columns of a frame as inputs of its ONNX file."""
    found = {}
    for port in program_of(model).inputs:
        cells = frame[port.name]
        if port.dtype == "string":
            found[port.name] = (
                cells.astype(object).where(cells.notna(), "").astype(str).to_numpy(object)[:, None]
            )
        elif "seconds" in port.meaning:
            seconds = cells.to_numpy("M8[us]").astype(np.int64) / 1e6
            found[port.name] = np.where(cells.isna(), np.nan, seconds)[:, None]
        else:
            found[port.name] = cells.to_numpy(np.float64)[:, None]
    return found


@pytest.mark.parametrize("kernel", KERNELS + HISTOGRAMS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_every_kernel_is_the_same_formula_in_onnx_and_torch(kernel, tmp_path):
    rows = np.abs(X) if kernel in HISTOGRAMS else X
    model = KernelEmbedding(3, kernel=kernel, loss="kernel_pca", n_landmarks=12, random_state=0).fit(rows)
    expected = model.transform(rows)
    assert_near(scored(model, {"X": rows}, tmp_path / "m.onnx")["embedding"], expected)
    assert_near(model.as_module()(torch.from_numpy(rows)).numpy(), expected)


@pytest.mark.parametrize("kernel", KERNELS + HISTOGRAMS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_every_kernel_has_the_same_diagonal(kernel):
    rows = np.abs(X) if kernel in HISTOGRAMS else X
    kernel = KernelEmbedding(3, kernel=kernel, loss="kernel_pca", n_landmarks=12).fit(rows).kernel_
    program, wide = Program(), torch.from_numpy(rows).double()
    program.output("diagonal", diagonal(kernel, program.input(Port("X", "float64", (4,), "rows"))))
    found = KernelModule(program, "diagonal")(wide)
    assert_near(found.squeeze(1).numpy(), kernel.diag(wide).numpy())


NAMED = sorted({cls for cls in subclasses(Kernel) if cls.name}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", NAMED, ids=lambda cls: cls.__name__)
def test_every_kernel_has_a_formula_or_a_reason_why_not(cls):
    """A kernel that is added here comes with its formula, or its reason is written down."""
    written = values.dispatch(cls) is not values.dispatch(Kernel)
    of_no_arrays = issubclass(cls, ObjectKernel | Precomputed)
    refused = of_no_arrays or any(issubclass(cls, kinds) for kinds, _ in REASONS)
    assert written != refused or cls is Automatic  # which becomes one of the others


@pytest.mark.parametrize("local", [False, True])
def test_ridge_predicts_with_intervals(local, tmp_path):
    model = KernelRidgeRegressor(**FAST, local=local).fit(X, Y)
    model._nest()
    found = scored(model, {"X": X}, tmp_path / "m.onnx", confidence=0.8)
    interval = model.predict_interval(X, 0.8)
    assert_near(found["prediction"], model.predict(X))
    assert_near(np.stack([found["lower"], found["upper"]], axis=1), interval)
    module = model.as_module()
    assert_near(module(torch.from_numpy(X).to(next(module.buffers()).dtype)).numpy(), model.predict(X))


def test_intervals_of_fits_without_folds(tmp_path):
    rows = np.concatenate([X, X + 0.1])
    model = KernelRidgeRegressor(**FAST).fit(rows, np.concatenate([Y, Y]) + RNG.normal(size=180) / 10)
    found = scored(model, {"X": X}, tmp_path / "m.onnx", confidence=0.9)
    assert_near(np.stack([found["lower"], found["upper"]], axis=1), model.predict_interval(X, 0.9))


@pytest.mark.parametrize("local", [False, True])
def test_ridge_classes_with_sets(local, tmp_path):
    model = KernelRidgeClassifier(**FAST, local=local).fit(np.tile(X, (2, 1)), np.tile(CLASSES, 2))
    found = scored(model, {"X": X}, tmp_path / "m.onnx", confidence=0.8)
    assert found["label"].tolist() == model.predict(X).tolist()
    assert_near(found["probabilities"], model.predict_proba(X))
    assert (found["in_set"] == model.predict_set(X, 0.8)).all()


def test_gaussian_process_gives_mean_deviation_and_interval(tmp_path):
    model = GaussianProcessRegressor(**FAST).fit(X, Y)
    found = scored(model, {"X": X}, tmp_path / "m.onnx", confidence=0.9)
    mean, deviation = model.predict(X, return_std=True)
    interval = model.predict_interval(X, 0.9)
    assert_near(found["prediction"], mean)
    assert_near(found["deviation"], deviation)
    assert_near(np.stack([found["lower"], found["upper"]], axis=1), interval)


@pytest.mark.parametrize("y", [CLASSES, Y > 0.5], ids=["three", "two"])
def test_gaussian_process_classes(y, tmp_path):
    model = GaussianProcessClassifier(**FAST).fit(X, y)
    far = np.concatenate([X, 50 * X[:5]])
    found = scored(model, {"X": far}, tmp_path / "m.onnx")
    assert_near(found["probabilities"], model.predict_proba(far))
    near = slice(len(X))  # far from all rows both classes are equally likely, to rounding
    assert found["label"][near].tolist() == model.predict(far)[near].tolist()


@pytest.mark.parametrize("measure", ["variance", "regression", "distance"])
def test_novelty_scores_p_values_and_alarms(measure, tmp_path):
    model = NoveltyDetector(kernel="gaussian", lengthscale="median", measure=measure, random_state=0).fit(X)
    rows = np.concatenate([X, 9 * X[:5]])
    found = scored(model, {"X": rows}, tmp_path / "m.onnx")
    assert_near(found["score"], model.score_samples(rows))
    assert_near(found["p_value"], model.p_values(rows))
    assert (found["label"] == model.predict(rows)).all()


def test_autoencoder_encodes_and_decodes(tmp_path):
    model = KernelAutoencoder(2, max_iter=20, tol=1e9, random_state=0).fit(X[:40])
    found = scored(model, {"X": X}, tmp_path / "m.onnx")
    Z = model.transform(X)
    assert_near(found["embedding"], Z)
    assert_near(found["reconstruction"], model.reconstruct(X))
    assert_near(
        scored(model, {"Z": Z}, tmp_path / "d.onnx", decoder=True)["reconstruction"], model.reconstruct(X)
    )
    assert_near(model.as_module(decoder=True)(torch.from_numpy(Z)).numpy(), model.reconstruct(X))


def test_images_of_bytes(tmp_path):
    images = RNG.integers(0, 256, (60, 5, 5), dtype=np.uint8)
    model = KernelEmbedding(4, loss="kernel_pca", n_landmarks=20, random_state=0).fit(images)
    assert_near(scored(model, {"X": images}, tmp_path / "m.onnx")["embedding"], model.transform(images))


def messy(n=240):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "income": np.exp(rng.normal(10, 1.5, n)),
            "job": rng.choice(["a", "b", "c"], n),
            "member": rng.choice(["yes", "no"], n),
            "when": pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.uniform(0, 1000, n), unit="D"),
            "flag": rng.random(n) > 0.5,
        }
    )
    frame.loc[[0, 100], "job"] = "seldom"
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "job"] = None
    frame.loc[::13, "when"] = pd.NaT
    return frame


def test_a_messy_table_is_encoded_in_the_file(tmp_path):
    frame = messy()
    target = np.log(frame.income) + frame.age.fillna(0) / 10
    model = KernelRidgeRegressor(kernel="auto", lengthscale="median", input_metric=None, random_state=0)
    model.fit(frame, target.to_numpy())
    rows = frame.iloc[:40].copy()
    rows.loc[3, "job"] = "never seen"
    rows.loc[6, ["income", "member"]] = [np.nan, None]
    rows.loc[8, "income"] = 1e9
    rows.loc[9, "when"] = pd.Timestamp("2120-12-31 23:59:59")
    rows.loc[10, "when"] = pd.Timestamp("1899-02-28 12:00:00")
    found = scored(model, table_feeds(model, rows), tmp_path / "m.onnx", data=frame)
    assert_near(found["prediction"], model.predict(rows))
    with pytest.warns(UserWarning, match=r"Rare values of 'job'"):
        model.to_onnx(tmp_path / "without.onnx")
    told = {each["name"]: each for each in description_of(tmp_path / "m.onnx")["inputs"]}
    assert told["job"]["usual"] == told["job"]["levels"][0] == frame.job.mode()[0]
    assert told["age"]["usual"] == pytest.approx(frame.age.median())
    encoded = torch.from_numpy(model.input_space_.encoder.transform(rows)).double()
    assert_near(model.as_module(dtype="float64")(encoded).numpy(), model.predict(rows))


def test_columns_may_be_called_anything(tmp_path):
    names = ["v0", "c1", "prediction", "__k"]
    frame = pd.DataFrame(X, columns=names).astype(float)
    model = KernelRidgeRegressor(**FAST).fit(frame, Y)
    found = scored(model, table_feeds(model, frame), tmp_path / "m.onnx")
    assert_near(found["prediction_output"], model.predict(frame))


def test_the_file_says_what_it_is(tmp_path):
    import onnx

    model = KernelRidgeClassifier(**FAST).fit(X, CLASSES)
    model.to_onnx(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_mode & 0o077 == 0  # it holds rows of the data
    with pytest.raises(FileExistsError):
        model.to_onnx(tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    facts = {each.key: json.loads(each.value) for each in written.metadata_props}
    assert facts["model"] == "KernelRidgeClassifier"
    assert facts["classes"] == ["high", "low", "middle"]
    assert facts["sha256"] == model.identity()["model"]
    assert facts["opset"] == 18 == written.opset_import[0].version
    assert [each["name"] for each in facts["inputs"]] == ["X"]


def test_what_cannot_be_written_is_refused_with_the_reason(tmp_path):
    words = KernelEmbedding(2, kernel=Spectrum(2), loss="kernel_pca", n_landmarks=5, random_state=0)
    words.fit(["abab", "baba", "aabb", "bbaa", "abba", "baab"])
    with pytest.raises(ExportError, match="not arrays of numbers"):
        words.to_onnx(tmp_path / "m.onnx")
    own = KernelEmbedding(
        2, kernel=lambda A, B: A @ B.T, loss="kernel_pca", n_landmarks=5, random_state=0
    ).fit(X)
    with pytest.raises(ExportError, match=r"a function of yours.*kernel=\.\.\.\)"):
        own.to_onnx(tmp_path / "m.onnx")
    text = [f"a text of several words, number {i}, like {i * 7}" for i in range(60)]
    frame = pd.DataFrame({"story": text, "x": X[:60, 0]})
    model = KernelEmbedding(
        2, n_landmarks=10, preprocess=TableEncoder(columns={"story": "text"}), random_state=0
    )
    with pytest.raises(ExportError, match="'story' is running text"):
        model.fit(frame).to_onnx(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
    with pytest.raises(ValueError, match="intervals and sets"):
        model.to_onnx(tmp_path / "m.onnx", confidence=0.9)


DIFFERENTIABLE = [
    KernelEmbedding(3, kernel="gaussian", loss="kernel_pca", n_landmarks=12, dtype="float64", random_state=0),
    KernelEmbedding(
        3, kernel=Laplacian(norm=1), loss="kernel_pca", n_landmarks=12, dtype="float64", random_state=0
    ),
    KernelEmbedding(3, kernel=InfiniteWidth(), loss="kernel_pca", n_landmarks=12, dtype="float64"),
    KernelRidgeRegressor(**FAST, dtype="float64"),
    KernelRidgeClassifier(**FAST, dtype="float64"),
    KernelRidgeRegressor(**FAST, dtype="float64", local=True),
    GaussianProcessRegressor(**FAST, dtype="float64"),
    GaussianProcessClassifier(**FAST, dtype="float64"),
    NoveltyDetector(kernel="gaussian", lengthscale="median", random_state=0),
    KernelAutoencoder(2, max_iter=20, tol=1e9, random_state=0),
]


@pytest.mark.parametrize("model", DIFFERENTIABLE, ids=lambda model: type(model).__name__)
def test_gradients_of_a_module_are_finite_differences_and_it_exports(model, tmp_path):
    y = CLASSES if isinstance(model, KernelRidgeClassifier | GaussianProcessClassifier) else Y
    module = model.fit(X, y).as_module(dtype="float64")
    rows = torch.from_numpy(np.random.default_rng(5).normal(size=(3, 4))).requires_grad_()
    assert torch.autograd.gradcheck(module, rows, eps=1e-6, atol=1e-4, rtol=1e-4)
    batch = torch.export.Dim("n")
    program = torch.export.export(module, (rows.detach(),), dynamic_shapes={"X": {0: batch}})
    more = torch.from_numpy(X).double()
    torch.testing.assert_close(program.module()(more), module(more))
    torch.export.save(program, tmp_path / "module.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "module.pt2").module()(more), module(more))
    assert not list(module.parameters())


def test_a_module_learns_inside_a_network():
    model = KernelEmbedding(3, kernel="gaussian", loss="kernel_pca", n_landmarks=12, random_state=0).fit(X)
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), model.as_module(), torch.nn.Linear(3, 1))
    loss = network(torch.from_numpy(X)).square().mean()
    loss.backward()
    assert network[0].weight.grad.abs().sum() > 0
    with pytest.raises(ValueError, match=r"not an output of this model: it has embedding"):
        model.as_module("prediction")


def test_krepes_needs_none_of_the_extras():
    """Everything is imported where they are missing; what needs one says so when it is used."""
    extras = "onnx", "onnxruntime", "fastapi", "starlette", "uvicorn", "mlflow", "skops"
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({extras}))
import krepes
for name in krepes.__all__:
    getattr(krepes, name)
for room in ("cli.commands.leave", "serving.server", "integrations.mlflow", "integrations.skops", "cli"):
    importlib.import_module("krepes." + room)
X = [[0.0], [1.0], [2.0], [4.0]]
model = krepes.KernelEmbedding(1, loss="kernel_pca").fit(X)
model.as_module()
for call, extra in (
    (lambda: model.to_onnx("m.onnx"), "onnx"),
    (lambda: krepes.serving.server.application(model), "serve"),
    (lambda: krepes.integrations.mlflow.save_model(model, "m"), "mlflow"),
):
    try:
        call()
    except ImportError as error:
        assert f"krepes[{{extra}}]" in str(error), error
    else:
        raise AssertionError(extra)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
