"""Models among other tools: routed weights and frames of scikit-learn, files of skops, folders of MLflow."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import make_scorer, r2_score
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import krepes.base.display
from krepes import KernelEmbedding
from krepes.clustering import SubspaceClustering
from krepes.integrations.skops import trusted_types
from krepes.kernels import Gaussian
from krepes.machines import KernelRidgeRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + RNG.normal(size=60) / 10
FAST = {"kernel": "gaussian", "lengthscale": "median", "input_metric": None, "random_state": 0}


def test_weights_are_routed_through_a_pipeline_and_a_search():
    """The chosen pipeline is that of a fit with these weights, not of one without."""
    weight = (np.arange(60) % 3 > 0).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = KernelRidgeRegressor(**FAST, penalty=0.1).set_fit_request(sample_weight=True)
        unweighted = make_scorer(r2_score).set_score_request(sample_weight=False)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        search = GridSearchCV(
            make_pipeline(scaler, machine),
            {"kernelridgeregressor__penalty": [0.1, 1.0]},
            scoring=unweighted,
            cv=2,
        )
        weighed = search.fit(X, Y, sample_weight=weight).best_estimator_
        plain = make_pipeline(StandardScaler(), KernelRidgeRegressor(**FAST)).set_params(
            **search.best_params_
        )
        ignored = plain.fit(X, Y)
    alone = clone(ignored[-1]).fit(ignored[0].transform(X), Y, sample_weight=weight)
    assert np.allclose(weighed.predict(X), alone.predict(ignored[0].transform(X)))
    assert not np.allclose(weighed.predict(X), ignored.predict(X))


def test_groups_are_routed_through_a_pipeline_and_a_search():
    """To the splits, which hold groups together, and to the machine, which keeps sums by group."""
    groups = np.repeat(["a", "b", "c"], 20)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = KernelRidgeRegressor(**FAST).set_fit_request(groups=True)
        pipeline = make_pipeline(StandardScaler(), machine)
        search = GridSearchCV(pipeline, {"kernelridgeregressor__penalty": [0.1, 1.0]}, cv=GroupKFold(3))
        search.fit(X, Y, groups=groups)
    assert search.best_estimator_[-1].groups_ == {"a": 20, "b": 20, "c": 20}
    assert search.n_splits_ == 3


def test_output_may_be_a_frame():
    model = KernelEmbedding(2, loss="kernel_pca", n_landmarks=10, random_state=0).set_output(
        transform="pandas"
    )
    found = model.fit(X).transform(X)
    assert list(found.columns) == ["kernelembedding0", "kernelembedding1"]


def test_a_notebook_shows_parameters_and_links_to_the_documentation(monkeypatch):
    model = KernelRidgeRegressor(**FAST)
    assert "input_metric" in model._repr_html_()
    assert "api/generated" not in model._repr_html_()  # where the documentation is, is not known
    monkeypatch.setattr(krepes.base.display, "SITE", "https://krepes.example")
    page = "https://krepes.example/api/generated/krepes"
    assert f"{page}.machines.KernelRidgeRegressor.html" in model._repr_html_()
    assert f"{page}.KernelEmbedding.html" in KernelEmbedding()._repr_html_()
    assert f"{page}.clustering.SubspaceClustering.html" in SubspaceClustering()._repr_html_()


READ = """
import sys, numpy as np, skops.io
from krepes.integrations.skops import trusted_types
pipeline = skops.io.load(sys.argv[1], trusted=trusted_types())
np.save(sys.argv[3], pipeline.predict(np.load(sys.argv[2])))
assert not pipeline[-1].get_params()["verbose"]
"""


def test_a_pipeline_in_a_file_of_skops_in_a_process_of_its_own(tmp_path):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    embedding = KernelEmbedding(2, loss="kernel_pca", n_landmarks=20, random_state=0)
    pipeline = make_pipeline(StandardScaler(), embedding, KernelRidgeRegressor(**FAST)).fit(X, Y)
    files = [str(tmp_path / name) for name in ("model.skops", "X.npy", "found.npy")]
    skops.dump(pipeline, files[0])
    np.save(files[1], X)
    subprocess.run([sys.executable, "-c", READ, *files], check=True)
    assert np.array_equal(np.load(files[2]), pipeline.predict(X))
    kinds = {type(part).__module__ + "." + type(part).__qualname__ for part in pipeline[1:]}
    assert set(skops.get_untrusted_types(file=files[0])) == kinds  # a model is bytes, and no other class
    with pytest.raises(skops.exceptions.UntrustedTypesFoundException):
        skops.load(files[0])


def test_an_unfitted_model_in_a_file_of_skops():
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    model = KernelEmbedding(2, kernel=Gaussian(3.0), random_state=0)
    read = skops.loads(skops.dumps(model), trusted=trusted_types())
    assert repr(read) == repr(model)
    assert np.array_equal(read.fit(X).transform(X), model.fit(X).transform(X))


def test_a_damaged_model_in_a_file_of_skops_is_refused():
    model = KernelRidgeRegressor(**FAST).fit(X, Y)
    state = model.__getstate__()
    with pytest.raises(ValueError, match=r"damaged|not a krepes model"):
        model.__setstate__({"model_file": state["model_file"][:-9]})


def test_pickle_and_copies_keep_what_files_do_not_hold():
    model = KernelRidgeRegressor(**FAST | {"kernel": linear_kernel}).fit(X, Y)
    for read in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(read.predict(X), model.predict(X))


LOADED = """
import sys, numpy as np, mlflow, krepes.integrations.mlflow as stored
X = np.load(sys.argv[2])
own = stored.load_model(sys.argv[1]).predict(X)
served = mlflow.pyfunc.load_model(sys.argv[1]).predict(X)
np.save(sys.argv[3], np.stack([own, served]))
"""


def test_mlflow_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    from krepes.integrations import mlflow as stored

    model = KernelRidgeRegressor(**FAST).fit(X, Y)
    stored.save_model(model, tmp_path / "model", input_example=X[:3])
    np.save(tmp_path / "X.npy", X)
    files = [str(tmp_path / name) for name in ("model", "X.npy", "found.npy")]
    subprocess.run([sys.executable, "-c", LOADED, *files], check=True)
    np.testing.assert_allclose(np.load(files[2]), np.stack([model.predict(X)] * 2))
    assert not [path for path in (tmp_path / "model").rglob("*") if path.suffix in (".pkl", ".pickle")]
    assert "signature" in (tmp_path / "model" / "MLmodel").read_text()
    with pytest.raises(FileExistsError):
        stored.save_model(model, tmp_path / "model")


LOGGED = """
import sys, numpy as np, mlflow, krepes.integrations.mlflow as stored
mlflow.set_tracking_uri(sys.argv[1])
np.save(sys.argv[4], stored.load_model(sys.argv[2]).predict(np.load(sys.argv[3])))
"""


def test_a_model_of_a_run_in_a_process_of_its_own(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    from krepes.integrations import mlflow as stored

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow would like a database
    store = (tmp_path / "runs").as_uri()
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    mlflow.set_tracking_uri(store)
    model = KernelRidgeRegressor(**FAST).fit(X, Y)
    with mlflow.start_run():
        logged = stored.log_model(model, "machine", input_example=X[:3])
    np.save(tmp_path / "X.npy", X)
    files = [str(tmp_path / name) for name in ("X.npy", "found.npy")]
    subprocess.run([sys.executable, "-c", LOGGED, store, logged.model_uri, *files], check=True)
    assert np.array_equal(np.load(files[1]), model.predict(X))
    assert logged.signature is not None
    assert [path.name for path in tmp_path.rglob("model.krepes")]
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle")]


def test_without_mlflow_the_error_says_what_to_install(monkeypatch):
    from krepes.integrations import mlflow as stored

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"krepes\[mlflow\]"):
        stored.save_model(KernelRidgeRegressor(), "nowhere")
