"""Losses that users write: what they may be, what a file and a checkpoint know of them, and what is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding, load
from krepes.base.storage.checkpoint import Checkpoint
from krepes.base.storage.model_file import read
from krepes.losses import Loss
from krepes.losses.checking import SIZES
from krepes.solvers import SGD
from krepes.solvers.sgd.training import Training
from krepes.views import Tabular
from refusals import refuses, warns_of
from sample_problems import PAIRS, X


class Spread(Loss):
    """Views that agree, embeddings that differ."""

    def __init__(self, weight=1.0):
        self.weight = weight

    def terms(self, batch):
        Z1, Z2 = batch.Z[:2]
        return {"agree": float(np.mean(self.weight)) * (Z1 - Z2).square().mean(), "spread": -Z1.std()}


class Stopped(Exception):  # noqa: N818 - not an error
    pass


def model(loss, **settings):
    solver = SGD(**{"max_epochs": 2, "batch_size": 32, **settings})
    return KernelEmbedding(
        3, loss=loss, solver=solver, n_landmarks=20, random_state=0, views=Tabular(n_views=2)
    )


@pytest.fixture
def interrupted(monkeypatch):
    """A fit that was stopped after three batches, with a checkpoint after each."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")

    def run(model, path, *data, **pairs):
        offer = Checkpoint.offer

        def stopping(self, state, place):
            offer(self, state, place)
            run.calls += 1
            if run.calls == 3:
                raise Stopped

        run.calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "offer", stopping)
            with pytest.raises(Stopped):
                model.fit(*data, checkpoint=path, **pairs)

    return run


def test_a_class_of_the_user_is_saved_by_its_name(tmp_path):
    """Transforming needs no loss; fitting again does, and says so."""
    fitted = model(Spread(weight=2.0)).fit(X)
    fitted.save(tmp_path / "own.krepes")
    loaded = load(tmp_path / "own.krepes")
    assert np.array_equal(loaded.transform(X), fitted.transform(X))
    assert "Spread(weight=2.0)" in str(loaded.loss_)
    with refuses(ValueError, "Spread(weight=2.0)", "set_params", "loss="):
        loaded.fit(X)
    loaded.set_params(loss="simclr").fit(X)


def test_a_function_of_the_user_is_saved_by_its_name(tmp_path):
    model(agree).fit(X).save(tmp_path / "function.krepes")
    loaded = load(tmp_path / "function.krepes")
    assert "the function 'agree', not in the file" in repr(loaded)
    assert str(loaded.loss_) == "CallableLoss(<the function 'agree', not in the file>)"
    with refuses(ValueError, "'agree'", "set_params", "loss="):
        loaded.fit(X)


def test_a_class_of_the_user_resumes_with_the_same_bits(tmp_path, interrupted):
    whole = model(Spread()).fit(X)
    interrupted(model(Spread()), tmp_path / "own.checkpoint", X)
    resumed = model(Spread()).fit(X, checkpoint=tmp_path / "own.checkpoint")
    assert np.array_equal(resumed.coefficients_, whole.coefficients_)


def agree(Z1, Z2, weight=1.0):
    return weight * (Z1 - Z2).square().mean() - Z1.std()


def changed_class():
    class Other(Spread):
        def terms(self, batch):
            return {"agree": (batch.Z[0] - batch.Z[1]).abs().mean(), "spread": -batch.Z[0].std()}

    Other.__name__ = Other.__qualname__ = "Spread"
    return Other()


def weighted(weight):
    return lambda a, b: weight * (a - b).abs().mean()


def table(middle):
    """Longer than what a printed array shows."""
    values = np.ones(3000)
    values[1500] = middle
    return values


CHANGES = {
    "array of a class": (Spread(weight=table(1.0)), Spread(weight=table(2.0))),
    "parameter of a class": (Spread(), Spread(weight=3.0)),
    "code of a class": (Spread(), changed_class()),
    "argument of a partial": (partial(agree, weight=1.0), partial(agree, weight=2.0)),
    "code of a function": (lambda a, b: (a - b).square().mean(), lambda a, b: (a - b).abs().mean()),
    "constant of a function": (lambda a, b: 2 * (a - b).abs().mean(), lambda a, b: 3 * (a - b).abs().mean()),
    "closure": (weighted(1.0), weighted(2.0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_another_loss_is_refused(change, tmp_path, interrupted):
    first, second = CHANGES[change]
    path = tmp_path / "own.checkpoint"
    interrupted(model(first), path, X)
    with refuses(ValueError, "another fit", "loss"):
        model(second).fit(X, checkpoint=path)
    model(first).fit(X, checkpoint=path)  # nothing was lost


def test_a_checkpoint_of_other_pairs_is_refused(tmp_path, interrupted):
    path = tmp_path / "pairs.checkpoint"
    interrupted(model(agree), path, PAIRS[0], positives=PAIRS[1])
    with refuses(ValueError, "another fit", "pairs"):
        model(agree).fit(PAIRS[0], positives=PAIRS[1][::-1].copy(), checkpoint=path)
    with refuses(ValueError, "another fit", "solver"):
        model(agree, learning_rate=0.1).fit(PAIRS[0], positives=PAIRS[1], checkpoint=path)
    model(agree).fit(PAIRS[0], positives=PAIRS[1], checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"12345"])
def test_what_is_no_checkpoint_is_named_and_kept(content, tmp_path):
    path = tmp_path / "some.file"
    path.write_bytes(content)
    with refuses(ValueError, "checkpoint"):
        model(agree).fit(X, checkpoint=path)
    assert path.read_bytes() == content


def test_a_checkpoint_needs_a_folder_before_training(tmp_path):
    with refuses(FileNotFoundError, "folder"):
        model(agree).fit(X, checkpoint=tmp_path / "nowhere" / "x.checkpoint")


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr("krepes.base.storage.model_file.write", full)
    with warns_of(UserWarning, "full.checkpoint", "No space left"):
        fitted = model(agree).fit(X, checkpoint=tmp_path / "full.checkpoint")
    assert np.array_equal(fitted.coefficients_, model(agree).fit(X).coefficients_)


def broken_after(calls):
    """A finite loss whose gradient is NaN from some call on: the square root of zero."""
    seen = [0]

    def loss(Z1, Z2):
        seen[0] += 1
        value = agree(Z1, Z2)
        return value + (Z1 - Z1).square().sum().sqrt() if seen[0] > calls else value

    return loss


def test_a_gradient_that_is_nan_stops_the_fit():
    """Also without held-out rows, where nothing else would notice."""
    with refuses(ValueError, "CallableLoss(loss)", "0.03"):
        model(broken_after(0), validation_fraction=0).fit(X)


def test_a_checkpoint_never_holds_nan(tmp_path, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    path = tmp_path / "good.checkpoint"
    with refuses(ValueError, "good.checkpoint", "1", "batch 2"):
        model(broken_after(3), validation_fraction=0).fit(X, checkpoint=path)
    theta = read(path, "Checkpoint")[1]["state"]["theta"]
    assert all(value.isfinite().all() for value in theta.values())


def test_a_loss_with_negatives_sees_them():
    class Triplet(Loss):
        uses_negatives = True

        def terms(self, batch):
            Z1, Z2 = batch.Z[:2]
            far = (Z1 - batch.negatives).square().mean().clamp(max=1)
            return {"triplet": (Z1 - Z2).square().mean() - far}

    settings = model(Triplet())
    settings.fit(PAIRS[0], positives=PAIRS[1], negatives=PAIRS[1][::-1].copy())
    with pytest.raises(TypeError) as caught:
        model(Triplet()).fit(PAIRS[0], positives=PAIRS[1])
    assert "No negatives= were given" in " ".join(caught.value.__notes__)


def test_a_module_is_trained_and_left_as_it_was():
    class Predictor(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, Z1, Z2):
            return (self.layer(Z1) - Z2).square().mean() - Z1.std()

    module = Predictor()
    before = module.layer.weight.detach().clone()
    fitted = model(module).fit(X)
    after = fitted.loss_parameters_["layer.weight"]
    assert set(fitted.loss_parameters_) == {"layer.weight", "layer.bias"}
    assert not np.allclose(np.asarray(after), before.numpy(), atol=1e-4)
    assert torch.equal(module.layer.weight, before)
    with refuses(ValueError, "CosineEmbeddingLoss"):
        model(torch.nn.CosineEmbeddingLoss()).fit(X)


def own(**members):
    return type("Own", (Spread,), members)()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda a, b: {"held_out": agree(a, b)}, "'held_out'"),
        (lambda a, b: {"rows_read": agree(a, b)}, "'rows_read'"),
        (lambda a, b: float(agree(a, b)), ("'loss'", "item()", "float()")),
        (own(parameters=lambda self, h, g: {"P": torch.ones(2)}), "'P'"),
        (own(parameters=lambda self, h, g: [torch.ones(2)]), ("parameters", "list")),
        (own(needs=("X", "labels")), ("'labels'", "X", "phi_norm_sq")),
        (own(scale_invariant=True), "column_scale"),
        (own(residuals=lambda self, batch: batch.Z[0].flatten()), "residuals"),
    ],
    ids=range(8),
)
def test_a_loss_that_contradicts_itself_is_refused_before_training(loss, message, monkeypatch):
    monkeypatch.setattr(Training, "_train", lambda *_: pytest.fail("training began"))
    with refuses(ValueError, message):
        model(loss).fit(X)


@pytest.mark.parametrize(
    ("setting", "value"), [("batch_size", 1), ("batch_size", 3.5), ("batch_size", "a"), ("max_epochs", 1.5)]
)
def test_counts_are_integers(setting, value):
    with refuses(ValueError, f"{setting}={value!r}"):
        model(agree, **{setting: value}).fit(X)


def test_pairs_of_another_length_are_refused():
    with refuses(ValueError, "positives=", "100 rows", "X", "150"):
        model("simclr").fit(PAIRS[0], positives=PAIRS[1][:100])


def test_a_loss_that_is_lowest_at_zero_starts_at_unit_variance():
    """Else training would begin, and stay, where all embeddings nearly coincide."""
    starts = []

    def pull(Z1, Z2):
        starts.append(Z1.detach().std(0).mean().item())
        return (Z1 - Z2).square().mean() + 0.1 * Z1.square().mean()

    model(pull, max_epochs=1, batch_size=150, validation_fraction=0, learning_rate=1e-6).fit(X)
    trained = starts[: -len(SIZES)]  # before the loss is looked at in other sizes
    assert trained[-1] == pytest.approx(1.0, rel=0.2)
