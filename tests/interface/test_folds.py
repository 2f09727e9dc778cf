"""Models that keep their moments by fold do all that others do, and the folds come along."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris

from command_line import run
from faults import Interrupted
from krepes import KernelEmbedding, load
from krepes.base.split import Parts
from krepes.engines import Local
from krepes.evaluation import search
from refusals import refuses

X = load_iris().data
SMALL = {"n_landmarks": 30, "random_state": 0, "dtype": "float64"}


def by_fold(n_components=3, n_folds=4, **params) -> KernelEmbedding:
    return KernelEmbedding(n_components, n_folds=n_folds, **{**SMALL, **params})


def same_folds(first: KernelEmbedding, second: KernelEmbedding, **tolerance) -> None:
    assert sorted(first.total_) == sorted(second.total_)
    for fold in first.total_:
        torch.testing.assert_close(first.total_[fold].S_12, second.total_[fold].S_12, **tolerance)


CLOSE = {"rtol": 1e-12, "atol": 1e-14}


def test_parts_add_up_by_fold():
    """partial_fit, empty_copy and merge: a row's fold does not depend on who adds it."""
    whole = by_fold().fit(X)
    assert isinstance(whole.total_, Parts)
    parts = whole.empty_copy()
    for start in range(0, len(X), 37):
        parts.partial_fit(X[start : start + 37])
    same_folds(parts, whole, **CLOSE)
    first = whole.empty_copy().partial_fit(X[:70])
    second = whole.empty_copy().partial_fit(X[70:], first_row=70)
    merged = first.merge(second)
    same_folds(merged, whole, **CLOSE)
    assert merged.held_out_loss().mean == pytest.approx(whole.held_out_loss().mean, rel=1e-8)


def test_folds_do_not_depend_on_the_seed_of_views():
    first, second = by_fold().fit(X), by_fold(random_state=7).fit(X)
    assert [first.total_[i].n for i in range(4)] == [second.total_[i].n for i in range(4)]


def test_folds_and_no_folds_are_not_merged():
    model = by_fold().fit(X)
    for other in (KernelEmbedding(3, **SMALL), by_fold(n_folds=5)):
        with refuses(ValueError, "n_folds"):
            model.empty_copy().partial_fit(X).merge(other.fit(X, space=model.space_))


def test_refits_share_the_folds():
    model = by_fold().fit(X)
    other = model.refit(loss="barlow_twins", n_components=2)
    assert other.total_ is model.total_
    assert model.rescaled("unit").total_ is model.total_
    assert other.held_out_loss().mean == pytest.approx(
        model.held_out_loss(loss="barlow_twins", n_components=2).mean
    )
    with refuses(ValueError, "held_out_loss", "feature_noise"):
        model.held_out_loss(kernel="linear")
    assert model.refit(n_components="auto").n_components_ == by_fold("auto").fit(X).n_components_


def test_setting_parameters_of_a_fitted_model_does_not_mix_folds():
    model = by_fold().fit(X).set_params(n_folds=None)
    model.partial_fit(X, first_row=150)
    assert sorted(model.total_) == [0, 1, 2, 3]
    assert model.moments_.n == 300


@pytest.mark.parametrize("moments", [True, False])
def test_files_keep_the_folds(tmp_path, moments):
    model = by_fold("auto").fit(X)
    model.save(tmp_path / "a.krepes", moments=moments)
    again = load(tmp_path / "a.krepes")
    assert again.n_components_ == model.n_components_
    assert again.n_components == "auto"
    np.testing.assert_allclose(again.transform(X), model.transform(X), atol=1e-8)
    if moments:
        same_folds(again, model, rtol=0, atol=0)
        assert again.held_out_loss().values.tolist() == model.held_out_loss().values.tolist()
        assert again.partial_fit(X).moments_.n == 300
    else:
        with refuses(ValueError, "moments=True"):
            again.held_out_loss()


def test_a_file_with_folds_is_larger_by_their_moments(tmp_path):
    """k times 16 r^2 bytes, as the docstring says."""
    for name, model in {"with": by_fold().fit(X), "without": KernelEmbedding(3, **SMALL).fit(X)}.items():
        model.save(tmp_path / name)
    r = load(tmp_path / "with").rank_
    more = (tmp_path / "with").stat().st_size - (tmp_path / "without").stat().st_size
    assert more == pytest.approx(3 * 16 * r**2, rel=0.2)


def test_a_resumed_pass_with_folds_has_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    whole = by_fold(engine=Local(16)).fit(X)
    engine = Interrupted(at=2)
    with pytest.raises(KeyboardInterrupt):
        by_fold(engine=engine).fit(X, checkpoint=tmp_path / "pass")
    with refuses(ValueError, "another fit"):
        KernelEmbedding(3, **SMALL, engine=Local(16)).fit(X, checkpoint=tmp_path / "pass")
    resumed = by_fold(engine=engine).fit(X, checkpoint=tmp_path / "pass")
    assert engine.n_blocks == 2 + 3 - 1  # blocks are four times larger: three, and one was in the checkpoint
    same_folds(resumed, whole, rtol=0, atol=0)


def test_weights_count_in_their_folds():
    weight = np.arange(150) % 3 + 1.0
    rows = np.repeat(np.arange(150), weight.astype(int))
    model = by_fold().fit(X, positives=X + 0.1, sample_weight=weight)
    assert model.moments_.n == len(rows)
    assert sum(part.n for part in model.total_.values()) == len(rows)
    assert np.isfinite(model.held_out_loss().values).all()


def test_it_is_cloned_and_searched():
    model = by_fold("auto", n_folds=None)
    assert clone(model).get_params()["n_components"] == "auto"
    result = search(by_fold(2), X, load_iris().target, n_trials=2)
    assert len(result.trials) == 2


def test_the_command_line_chooses_the_width(tmp_path):
    np.save(tmp_path / "x.npy", X)
    path = tmp_path / "m.krepes"
    fit = ("fit", tmp_path / "x.npy", "-o", path, "--n-landmarks", 30)
    run(*fit, "--n-components", "auto")
    facts = json.loads(run("info", path, "--json"))
    assert facts["components"] == load(path).n_components_
    assert facts["folds"] == 5
    assert "chosen from the data" in run("info", path)
    run(*fit, "--set", "n_folds=3", "--force")
    assert sorted(load(path).total_) == [0, 1, 2]
