"""Models among other tools: routed weights and frames of scikit-learn, folders of MLflow."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from krepes import KernelEmbedding
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
        machine.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        search = GridSearchCV(
            make_pipeline(scaler, machine), {"kernelridgeregressor__penalty": [0.1, 1.0]}, cv=2
        )
        weighed = search.fit(X, Y, sample_weight=weight).best_estimator_
        plain = make_pipeline(StandardScaler(), KernelRidgeRegressor(**FAST)).set_params(
            **search.best_params_
        )
        ignored = plain.fit(X, Y)
    alone = clone(ignored[-1]).fit(ignored[0].transform(X), Y, sample_weight=weight)
    assert np.allclose(weighed.predict(X), alone.predict(ignored[0].transform(X)))
    assert not np.allclose(weighed.predict(X), ignored.predict(X))


def test_groups_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        machine = KernelRidgeRegressor(**FAST, penalty=0.1).set_fit_request(groups=True)
        fitted = make_pipeline(StandardScaler(), machine).fit(X, Y, groups=np.repeat(["a", "b"], 30))
    assert fitted[-1].groups_ == {"a": 30, "b": 30}


def test_output_may_be_a_frame():
    model = KernelEmbedding(2, loss="kernel_pca", n_landmarks=10, random_state=0).set_output(
        transform="pandas"
    )
    found = model.fit(X).transform(X)
    assert list(found.columns) == ["kernelembedding0", "kernelembedding1"]
    assert "n_landmarks" in model._repr_html_()


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


def test_without_mlflow_the_error_says_what_to_install(monkeypatch):
    from krepes.integrations import mlflow as stored

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"krepes\[mlflow\]"):
        stored.save_model(KernelRidgeRegressor(), "nowhere")
