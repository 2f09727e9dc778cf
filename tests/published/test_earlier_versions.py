"""What krepes wrote and found at commit e7109c2: its files and checkpoints load, and its results come out again.

Fixed-seed results are compared with what that commit gave: closed forms to 1e-10 in float64 and 1e-5 in float32,
descents to 1e-8 in value; embeddings by Z Z^T, because equal eigenvalues let components rotate.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

import krepes
from krepes.features import FitData, Samples
from krepes.losses import Autoencoder
from krepes.moments import Moments
from krepes.solvers.sgd.initializations.principal import SCALES
from krepes.solvers.sgd.start import ROUNDING
from krepes.views import Image, Paired

FIXTURES = Path(__file__).parents[1] / "fixtures"
EARLIER = FIXTURES / "e7109c2"
sys.path.insert(0, str(FIXTURES))

import problems  # noqa: E402

CLOSED_FORMS = ("kernel_pca", "simple_contrastive", "spectral_contrastive")


@pytest.mark.parametrize("name", sorted(problems.saved_models()))
def test_a_model_file_loads_and_gives_equal_outputs(name):
    problem = problems.saved_models()[name]
    model = krepes.load(EARLIER / f"{name}.krepes", kernel=problem.kernel)
    with np.load(EARLIER / f"{name}.npz") as expected:
        np.testing.assert_allclose(model.transform(problem.rows), expected["transform"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.coverage(problem.rows), expected["coverage"], rtol=1e-3, atol=1e-4)
        assert model.history_[-1]["total"] == expected["value"]
    assert (model.moments_ is None) == (name == "without_moments" or name.startswith("trained"))


@pytest.mark.parametrize("name", [*problems.MOMENT_LOSSES, "double", "table", "pairs", "exact_views"])
def test_a_model_file_goes_on(name):
    """Its moments can be refitted and continued."""
    problem = problems.saved_models()[name]
    model = krepes.load(EARLIER / f"{name}.krepes")
    before = model.transform(problem.rows)
    again = model.refit(verbose=0)
    np.testing.assert_allclose(again.transform(problem.rows), before, rtol=1e-3, atol=1e-4)
    n = model.moments_.n
    model.partial_fit(problem.data, **problem.options)
    assert model.moments_.n == 2 * n


def as_earlier(model: krepes.KernelEmbedding, data: Any, **options: Any) -> krepes.KernelEmbedding:
    """What these arguments made at e7109c2: other defaults of kernel, views, strengths and the scale of the output."""
    model, task = clone(model), model._task()
    if model.kernel == "auto":
        model.set_params(kernel="gaussian")
    if model.views == "auto" and isinstance(task.loss, Autoencoder):
        model.set_params(views=None)
    if model.views == "auto" and isinstance(views := model.prepare(data, **options).views, Image):
        model.set_params(views=Image(n_views=views.n_views))
    space = model.prepare(data, **options)
    if task.of_samples:
        opened = FitData.open(data, options.get("positives"), options.get("negatives"))
        samples = Samples(replace(space, exact_views=False), opened.reader(space.inputs, space.placement))
        moments = Moments.of_rows(*samples.sample_features)
    else:
        moments = clone(model).fit(data, space=space, **options).moments_
    unit = moments.S.trace().item() / moments.rank / moments.variance
    noisy = not isinstance(space.views, Image | Paired)
    return clone(model).set_params(scale="loss", regularization=0.01 * unit, feature_noise=0.1 * unit * noisy)


TRAINED = ("adam", "gauss_newton", "target")


@pytest.mark.filterwarnings("ignore:.*does not look at negatives:UserWarning")
@pytest.mark.parametrize("name", sorted(set(problems.interrupted_fits()) - set(TRAINED)))
def test_a_checkpoint_is_resumed(name, tmp_path, caplog):
    problem = problems.interrupted_fits()[name]
    path = tmp_path / "checkpoint"
    shutil.copy(EARLIER / f"{name}.checkpoint", path)
    model = as_earlier(problem.model, problem.data, **problem.options)
    model.fit(problem.data, checkpoint=path, **problem.options)
    assert "Resuming" in caplog.text
    with np.load(EARLIER / f"{name}.checkpoint.npz") as expected:
        np.testing.assert_allclose(model.transform(problem.rows), expected["transform"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_a_checkpoint_of_training_is_refused(name, tmp_path):
    """Strengths of e7109c2 meant something else: training would go on with another objective."""
    problem = problems.interrupted_fits()[name]
    path = tmp_path / "checkpoint"
    shutil.copy(EARLIER / f"{name}.checkpoint", path)
    with pytest.raises(ValueError, match="regularization"):
        problem.model.fit(problem.data, checkpoint=path, **problem.options)


def _agree(data_name: str, data, fit: str, start: int = 0) -> None:
    loss, dtype = fit.rsplit("_", 1)
    with mock.patch("krepes.solvers.sgd.start.first_of_lowest", partial(_tied, place=start)):
        model = as_earlier(problems.reference_fits(data)[fit], data).fit(data)
    with np.load(EARLIER / "references.npz") as expected:
        products = expected[f"{data_name}/{fit}/products"]
        value = float(expected[f"{data_name}/{fit}/value"])
    if dtype == "float32":
        value_tolerance = product_tolerance = 1e-5
    elif loss in CLOSED_FORMS:
        value_tolerance = product_tolerance = 1e-10
    else:
        value_tolerance, product_tolerance = (1e-8, 1e-5) if loss in problems.MOMENT_LOSSES else (1e-6, 1e-4)
    assert model.history_[-1]["total"] == pytest.approx(value, rel=value_tolerance)
    found = problems.inner_products(model, data)
    if dtype == "float32" and loss not in CLOSED_FORMS:
        product_tolerance = (
            1e-2  # a descent stops where float32 moments let it: its value is what is promised
        )
    np.testing.assert_allclose(found, products, rtol=0, atol=product_tolerance * np.abs(products).max())


def _tied(values: list[float], place: int) -> int:
    """The start at this place among those whose loss is equal, counted around."""
    equal = [i for i, value in enumerate(values) if value <= min(values) * (1 + ROUNDING)]
    return equal[place % len(equal)]


FITS = sorted(problems.reference_fits(None))
IGNORE_SCALE = ("byol_float64", "autoencoder_float64")


@pytest.mark.parametrize("fit", FITS)
def test_digits_come_out_as_before(fit):
    _agree_from_a_start("digits", problems.reference_data(None)["digits"], fit)


@pytest.mark.full
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("name", ["adult", "mnist"])
def test_real_data_come_out_as_before(name, fit, shared_data):
    _agree_from_a_start(name, problems.reference_data(shared_data)[name], fit)


def _agree_from_a_start(name: str, data, fit: str) -> None:
    """For losses that ignore scale, rounding chose among equal starts at e7109c2; one of them it was."""
    failures = []
    for start in range(2 * len(SCALES) if fit in IGNORE_SCALE else 1):
        try:
            return _agree(name, data, fit, start)
        except AssertionError as error:
            failures.append(error)
    raise failures[0]
