"""The search for parameters: what it records is true, and it goes on where it stopped."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris

from krepes import KernelEmbedding
from krepes.base.components import named
from krepes.engines import Local
from krepes.evaluation import Search, linear_probe, search
from krepes.evaluation.tuning.ranges import RANGES, loss_ranges, settle
from krepes.evaluation.tuning.split import split_rows
from krepes.losses import Loss
from krepes.solvers import SGD
from krepes.sources import open_source
from krepes.sources.row_subset import subset
from refusals import refuses

optuna = pytest.importorskip("optuna")

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32)
pytestmark = pytest.mark.usefixtures("one_probe_strength")


def small(loss: str = "spectral_contrastive", **params) -> KernelEmbedding:
    return KernelEmbedding(3, loss=loss, n_landmarks=20, random_state=0, **params)


def quick_sgd(loss: str = "simclr") -> KernelEmbedding:
    return small(loss, solver=SGD(max_epochs=2, batch_size=32))


def tried(result) -> list:
    kept = ("scores", "message")
    return [
        (trial.params, trial.value, *(trial.user_attrs[name] for name in kept)) for trial in result.trials
    ]


# What is recorded


@pytest.mark.parametrize("model", [small(), quick_sgd()], ids=["moments", "sgd"])
def test_the_best_value_is_that_of_a_model_fitted_and_probed_anew(model):
    """Fit with the best parameters on the training rows alone, and probe every draw of the validation rows."""
    prepared = Search(model, X, y)
    result = prepared.run(3)
    split = prepared.split
    again = model.set_params(**result.best_params).fit(X[split.train])
    Z, labels = again.transform(X[split.validation]), y[split.validation]
    accuracies = [
        linear_probe(Z[a], labels[a], Z[b], labels[b], random_state=seed, C_grid=(1.0,)).accuracy
        for (a, b), seed in zip(split.plan.draws, split.plan.seeds)
    ]
    assert result.best_value == pytest.approx(np.mean(accuracies), abs=1e-12)
    assert result.best_value == max(trial.value for trial in result.ranked)
    assert len(result.ranked) > 1
    assert result.metric == "accuracy"


def test_no_label_of_a_training_row_is_looked_at():
    split = split_rows(y, len(y), "vectors")
    assert not np.intersect1d(split.train, split.validation).size
    assert len(split.train) + len(split.validation) == len(y)
    assert len(split.plan.labels.codes) == len(split.validation)
    for labelled, scored in split.plan.draws:
        assert not np.intersect1d(labelled, scored).size


@pytest.mark.parametrize(("kind", "share"), [("images", 0.02), ("table", 0.1), ("vectors", 0.1)])
def test_the_validation_part_is_that_of_the_paper(kind, share):
    split = split_rows(np.arange(10_000) % 10, 10_000, kind)
    assert len(split.validation) == share * 10_000


def test_a_small_validation_part_is_made_large_enough_to_choose_by():
    assert len(split_rows(y, len(y), "images").validation) == 3 * 20
    assert len(split_rows(y[::3], len(y[::3]), "images").validation) <= len(y[::3]) // 2 + 3


def test_where_labels_are_few_all_of_them_are_for_validation():
    few = np.where(np.arange(150) % 5 == 0, y, np.nan)
    split = split_rows(few, 150, "images")
    np.testing.assert_array_equal(split.validation, np.arange(0, 150, 5))
    np.testing.assert_array_equal(split.train, np.flatnonzero(np.arange(150) % 5))


def test_test_rows_take_no_part():
    rows = np.arange(0, 150, 2)
    prepared = Search(small(), X, y, rows=rows)
    used = np.concatenate([prepared.split.train, prepared.split.validation])
    np.testing.assert_array_equal(np.sort(used), rows)
    changed = X.copy()
    changed[1::2] = 1e6
    first, second = prepared.run(2), search(small(), changed, y, rows=np.arange(150) % 2 == 0, n_trials=2)
    assert tried(first) == tried(second)


@pytest.mark.parametrize(
    ("counts", "metric"), [((50, 50), "accuracy"), ((60, 40), "accuracy"), ((80, 20), "balanced_accuracy")]
)
def test_the_metric_follows_the_sizes_of_the_classes(counts, metric):
    labels = np.repeat(["a", "b"], counts)
    prepared = Search(small(), X[:100], labels)
    assert prepared.split.metric == metric
    assert metric.replace("_", " ") in prepared.split.describe()
    trial = prepared.run(3).best_trial
    assert trial.value == trial.user_attrs["scores"][metric]


# One pass


def test_losses_of_moments_read_the_data_once(monkeypatch):
    """Three trials or one: the kernel pass is made once, and every trial is solved from its moments."""
    calls = []
    passing = Local.reduce
    monkeypatch.setattr(Local, "reduce", lambda *a, **given: calls.append(1) or passing(*a, **given))
    prepared = Search(small("vicreg"), X, y)
    assert prepared.one_pass
    prepared.run(3)
    assert len(calls) == 1
    lengthscale = {"kernel__lengthscale": (0.5, 2.0)}  # moments depend on the kernel
    other = Search(small("vicreg"), X, y, space=lengthscale)
    assert not other.one_pass
    other.run(2)
    assert len(calls) == 3


def test_another_loss_is_a_choice_too():
    space = {"loss": ["kernel_pca", "barlow_twins"], "regularization": (1e-4, 1e-2)}
    result = search(small(), X, y, space=space, n_trials=4)
    assert {trial.params["loss"] for trial in result.trials} == {"kernel_pca", "barlow_twins"}
    assert not result.failed


# What is searched


@pytest.mark.parametrize("name", sorted(named(Loss)))
def test_every_loss_has_a_space_that_its_model_takes(name):
    space = loss_ranges(named(Loss)[name]())
    assert space
    settled = settle(KernelEmbedding(loss=name), None)
    assert set(space) <= set(settled.varied)
    with_rate = {"solver__learning_rate", "solver__weight_decay"} & set(settled.varied)
    assert bool(with_rate) == (settled.fixed.get("solver") == "sgd")


def test_the_ranges_are_those_of_the_paper():
    """The regularisation's too, in our units: 1e-5 to 100 times a thousandth of the variance."""
    wide, strength = (1e-5, 100), (1e-8, 0.1)
    for loss in ("kernel_pca", "simple_contrastive", "spectral_contrastive", "barlow_twins"):
        assert RANGES[loss] == {"regularization": strength}
    assert RANGES["simclr"] == {"loss__temperature": (1e-3, 100)}
    assert set(RANGES["vicreg"].values()) == {wide, strength}
    assert len(RANGES["vicreg"]) == 4
    assert RANGES["autoencoder"] == {"regularization": strength, "loss__covariance_weight": wide}
    rate = settle(KernelEmbedding(loss="byol"), None).varied["solver__learning_rate"]
    assert rate == optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True)
    for loss in set(RANGES) - {"vicreg, quadratic"}:
        assert all(low > 0 for low, _ in RANGES[loss].values())  # logarithmic


def test_a_new_loss_has_its_regularization_searched():
    settled = settle(small(loss=lambda Z1, Z2: (Z1 - Z2).square().mean()), None)
    assert set(settled.varied) == {"regularization", "solver__learning_rate", "solver__weight_decay"}


def test_sgd_has_the_papers_epochs_unless_the_model_says_otherwise():
    assert settle(small("simclr"), None).fixed == {
        "solver": "sgd",
        "solver__max_epochs": 60,
        "solver__patience": 10,
    }
    assert settle(small("simclr", solver=SGD(max_epochs=3)), None).fixed == {}
    newton = small("simclr", solver=SGD(preconditioner="gauss_newton"))
    assert set(settle(newton, None).varied) == {"loss__temperature"}


def test_own_ranges_and_choices_are_kept_to():
    space = {"regularization": (0.1, 0.2), "n_components": (2, 4), "loss__redundancy": [0.1, 1.0]}
    result = search(small("barlow_twins"), X, y, space=space, n_trials=4)
    for trial in result.trials:
        assert 0.1 <= trial.params["regularization"] <= 0.2
        assert trial.params["n_components"] in (2, 3, 4)
        assert isinstance(trial.params["n_components"], int)
        assert trial.params["loss__redundancy"] in (0.1, 1.0)
    assert len(result.table()) == 4
    left = settle(small("vicreg"), {"loss__variance_weight": None, "regularization": (1, 5)}).varied
    assert "loss__variance_weight" not in left
    assert isinstance(left["regularization"].low, float)  # a number with fractions stays one


# The study


@pytest.mark.parametrize("sampler", [pytest.param("random", marks=pytest.mark.full), "tpe"])
@pytest.mark.parametrize("model", [small("vicreg"), quick_sgd()], ids=["moments", "sgd"])
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(tmp_path, sampler, model):
    """Seven trials at once, or three, an interruption in the fourth, and four: the same trials."""
    n_trials = 7 if sampler == "tpe" and model.loss == "vicreg" else 3
    whole = search(model, X, y, sampler=sampler, n_trials=n_trials)

    def stop(result):
        if len(result.trials) == 2:
            raise KeyboardInterrupt

    study = tmp_path / "a.study"
    with pytest.raises(KeyboardInterrupt):
        search(model, X, y, sampler=sampler, n_trials=n_trials, study=study, callback=stop)
    assert len(Search(model, X, y, sampler=sampler, study=study).result.trials) == 2
    parts = search(model, X, y, sampler=sampler, n_trials=n_trials, study=study)
    assert tried(parts) == tried(whole)
    assert parts.best_params == whole.best_params
    assert (
        len({json.dumps(trial.params) for trial in whole.trials}) == n_trials
    )  # not one trial again and again


def test_a_finished_study_is_only_read(tmp_path, monkeypatch):
    study = tmp_path / "a.study"
    first = search(small(), X, y, n_trials=2, study=study)
    content = study.read_bytes()
    monkeypatch.setattr(Search, "prepare", lambda self: pytest.fail("nothing is left to do"))
    assert tried(search(small(), X, y, n_trials=2, study=study)) == tried(first)
    assert study.read_bytes() == content


def test_another_seed_tries_something_else():
    one, other = (search(small(), X, y, n_trials=2, random_state=seed) for seed in (0, 1))
    assert one.trials[0].params != other.trials[0].params


def test_overwriting_starts_anew(tmp_path):
    study = tmp_path / "a.study"
    search(small(), X, y, n_trials=2, study=study)
    assert len(search(small("vicreg"), X, y, n_trials=1, study=study, overwrite=True).trials) == 1


def test_the_study_is_lines_of_json_that_optuna_reads(tmp_path):
    study = tmp_path / "a.study"
    result = search(small(), X, y, n_trials=3, study=study)
    for line in study.read_text().splitlines():
        json.loads(line)
    backend = optuna.storages.journal.JournalFileBackend(str(study))
    found = optuna.load_study(study_name="krepes", storage=optuna.storages.JournalStorage(backend))
    assert found.best_value == result.best_value
    assert found.best_params == result.best_trial.params
    assert not list(tmp_path.glob("*.lock"))


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on(tmp_path):
    study = tmp_path / "a.study"
    space = {"regularization": [1e6, 0.01]}
    result = search(small("kernel_pca"), X, y, space=space, n_trials=6, study=study)
    assert result.failed
    assert result.ranked
    assert all("No component is left" in trial.user_attrs["message"] for trial in result.failed)
    assert result.best_params == {"regularization": 0.01}
    assert tried(search(small("kernel_pca"), X, y, space=space, n_trials=6, study=study)) == tried(result)


def test_training_that_diverges_fails_only_its_trial():
    def fragile(Z1, Z2):
        return (Z1 - Z2).square().mean() - Z1.square().mean()

    model = small(loss=fragile, solver=SGD(max_epochs=3, batch_size=32, optimizer="gradient"))
    space = {"regularization": None, "solver__learning_rate": [1e30, 1e-3]}
    result = search(model, X, y, space=space, n_trials=5)
    assert {trial.params["solver__learning_rate"] for trial in result.failed} == {1e30}
    assert result.best_params == {"solver__learning_rate": 1e-3}


# Rows of every kind


def test_a_part_of_a_source_is_those_rows(tmp_path):
    """In memory and from a file that is only scanned, whatever the size of batches."""
    table = pa.table({"a": np.arange(100), "b": [f"w{i % 7}" for i in range(100)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=9)
    rows = np.flatnonzero(np.arange(100) % 3 == 1)
    for data in (table, tmp_path / "t.parquet"):
        part = subset(open_source(data), rows)
        for size, start in ((1, 0), (7, 5), (1000, 0), (4, len(rows))):
            batches = list(part.batches(size, start))
            assert [first for first, _ in batches] == list(range(start, len(rows), size))
            found = [value for _, batch in batches for value in batch["a"].to_pylist()]
            assert found == rows[start:].tolist()
        assert part.select(["b"]).take(np.array([3, 0]))["b"].to_pylist() == [
            f"w{i % 7}" for i in rows[[3, 0]]
        ]
    assert subset(open_source(X), rows).take(np.array([1]))[0].tolist() == X[rows[1]].tolist()
    with refuses(ValueError, "increasing", "order"):
        subset(open_source(X), np.array([2, 1]))


def test_a_file_gives_the_same_trials_as_the_frame(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_parquet(tmp_path / "iris.parquet", row_group_size=17)
    results = [search(small(), data, y, n_trials=2) for data in (frame, tmp_path / "iris.parquet")]
    assert tried(results[0]) == tried(results[1])


def test_adult_is_chosen_by_balanced_accuracy(shared_data):
    frame = pd.read_parquet(shared_data / "adult.parquet").iloc[:1500]
    labels = frame.pop("income")
    frame.pop("split")
    model = KernelEmbedding(16, loss="kernel_pca", n_landmarks=100, random_state=0)
    result = search(model, frame, labels, n_trials=3)
    assert result.metric == "balanced_accuracy"
    assert result.best_value > 0.6  # the larger class alone has 0.5
