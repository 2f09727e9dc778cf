"""krepes models in MLflow: saved as krepes's own file, without pickle, with a signature and an input example.

    import krepes.integrations.mlflow as krepes_mlflow

    krepes_mlflow.save_model(model, "folder", input_example=X[:5])
    model = krepes_mlflow.load_model("folder")                       # the krepes estimator
    mlflow.pyfunc.load_model("folder").predict(X)                    # what mlflow serves

`pyfunc` predicts what suits the model: the representation of an embedding, classes, quantities, scores of novelty.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from krepes._version import __version__
from krepes.one_pass import OnePassEstimator
from krepes.saved_models import load

FLAVOR = "krepes"
FILE = "model.krepes"
METHODS = {
    "KernelEmbedding": "transform",
    "KernelAutoencoder": "transform",
    "NoveltyDetector": "score_samples",
}


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError:
        raise ImportError("This needs MLflow: pip install 'krepes[mlflow]'.") from None
    return mlflow


def answer(model: OnePassEstimator, X: Any) -> Any:
    """What MLflow's `predict` gives for rows."""
    return getattr(model, METHODS.get(type(model).__name__, "predict"))(X)


def save_model(
    model: OnePassEstimator,
    path: str | os.PathLike,
    *,
    signature: Any = None,
    input_example: Any = None,
    sums: bool = True,
    mlflow_model: Any = None,
) -> None:
    """Write a model as a folder that MLflow reads.

    Parameters
    ----------
    model : fitted estimator
    path : folder, which must not exist
    signature : ModelSignature, default=None
        By default inferred from the example and what the model says of it.
    input_example : some rows, as for `predict`, default=None
    sums : bool, default=True
        Whether `partial_fit` and `merge` should work on the loaded model.
    mlflow_model : mlflow.models.Model, default=None
        MLflow's description, which is added to.
    """
    mlflow = _mlflow()
    from mlflow.models import Model, infer_signature
    from mlflow.models.utils import _save_example

    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} exists already and is not empty; choose another name.")
    model._solved()
    folder.mkdir(parents=True, exist_ok=True)
    described = Model() if mlflow_model is None else mlflow_model
    if signature is None and input_example is not None:
        signature = infer_signature(input_example, answer(model, input_example))
    if signature is not None:
        described.signature = signature
    if input_example is not None:
        _save_example(described, input_example, str(folder))
    OnePassEstimator.save(model, folder / FILE, sums=sums)
    needed = [f"krepes=={__version__}"]
    mlflow.pyfunc.add_to_model(described, loader_module="krepes.integrations.mlflow", data=FILE)
    described.add_flavor(FLAVOR, krepes_version=__version__, data=FILE, estimator=type(model).__name__)
    (folder / "requirements.txt").write_text("\n".join(needed) + "\n")
    described.save(str(folder / "MLmodel"))


def log_model(model: OnePassEstimator, name: str, **options: Any) -> Any:
    """Save a model in the present MLflow run; `options` as for `save_model`."""
    import sys

    _mlflow()
    from mlflow.models import Model

    return Model.log(artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **options)


def load_model(model_uri: str | os.PathLike, *, device: str = "auto") -> OnePassEstimator:
    """The krepes estimator of a folder or a URI such as "runs:/.../model"; no code of the file is run."""
    folder = Path(model_uri)
    if not folder.is_dir():
        from mlflow.artifacts import download_artifacts

        folder = Path(download_artifacts(artifact_uri=str(model_uri)))
    return load(folder / FILE, device=device)


class _Served:
    """What `mlflow.pyfunc` calls."""

    def __init__(self, model: OnePassEstimator):
        self.model = model

    def predict(self, X: Any, params: Any = None) -> Any:
        return answer(self.model, X)


def _load_pyfunc(path: str) -> _Served:
    """Called by MLflow."""
    return _Served(load(path))
