"""A loss that cannot be trained is refused before the first epoch, by name and with the remedy."""

from __future__ import annotations

import pytest
import torch

from krepes.losses import (
    BYOL,
    Autoencoder,
    Batch,
    CallableLoss,
    Loss,
    SimCLR,
    SpectralContrastive,
    as_loss,
    check_loss,
)
from krepes.losses.statistics import SampleStatistics


def distance(Z1, Z2):
    return (Z1 - Z2).square().sum(1).mean()


GOOD = [
    distance,
    lambda Z1, Z2, margin=0.5: (distance(Z1, Z2) + margin).relu(),
    lambda *Z: distance(*Z),
    lambda Z1, Z2: {"near": distance(Z1, Z2), "far": -Z1.var()},
    lambda Z1, Z2: Z1.square().mean(),  # of one view, but of two arguments
    lambda Z1, Z2: (Z1.std(0) - 5).relu().sum(),  # flat at most scales
    lambda Z1, Z2: (torch.eye(Z1.shape[1]) @ Z1.mT @ Z2).square().mean(),  # makes a float32 tensor of its own
    torch.nn.MSELoss(),
]


@pytest.mark.parametrize("function", GOOD, ids=range(len(GOOD)))
def test_functions_that_can_be_trained_pass(function):
    check_loss(as_loss(function), 3)


@pytest.mark.parametrize(
    "function", [lambda Z: Z.square().mean(), lambda Z1, Z2, Z3: Z1.mean(), lambda: 0.0], ids=range(3)
)
def test_the_wrong_number_of_arguments(function):
    message = r"cannot be called with two arguments.*function\(Z1, Z2\).*views_needed = 1"
    with pytest.raises(ValueError, match=message):
        check_loss(as_loss(function))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda Z: Z.square().sum(1),
            r"a tensor of shape \(8,\) for 'loss'; expected a scalar tensor.*mean\(\)",
        ),
        (lambda Z: 1.0, "float for 'loss'; expected a scalar tensor"),
        (lambda Z: Z.mean().item(), "float for 'loss'; expected a scalar tensor"),
        (lambda Z: None, "NoneType for 'loss'; expected a scalar tensor"),
        (lambda Z: (Z.mean(), Z.var()), "tuple for 'loss'; expected a scalar tensor"),
        (lambda Z: {}, "an empty dict"),
        (lambda Z: {"a": Z.mean(), "b": Z}, r"shape \(8, 2\) for 'b'"),
        (lambda Z: {"total": Z.mean()}, "named a term 'total'"),
        (lambda Z: {1: Z.mean()}, "named a term 1"),
    ],
)
def test_what_is_no_loss(result, message):
    with pytest.raises(ValueError, match=message):
        check_loss(as_loss(lambda Z1, Z2: result(Z1)))


@pytest.mark.parametrize(
    "function",
    [
        lambda Z1, Z2: torch.zeros((), requires_grad=True) * 2,
        lambda Z1, Z2: torch.ones(()),
        lambda Z1, Z2: distance(Z1.detach(), Z2.detach()),
        lambda Z1, Z2: torch.tensor((Z1 - Z2).square().mean().item()),
        lambda Z1, Z2: (Z1 > Z2).float().mean(),
        lambda Z1, Z2: 0 * distance(Z1, Z2),
        lambda Z1, Z2: (Z1 - Z2).sign().mean(),
    ],
    ids=range(7),
)
def test_a_loss_that_ignores_its_input(function):
    with pytest.raises(ValueError, match=r"CallableLoss\(.*does not depend on the embeddings"):
        check_loss(as_loss(function))


class NotADict(Loss):
    def terms(self, batch):
        return batch.Z[0].mean()


def test_a_loss_class_is_held_to_the_same():
    with pytest.raises(ValueError, match=r"NotADict\(\) returned a tensor of shape \(\); expected"):
        check_loss(NotADict())


def test_an_error_of_the_function_itself_comes_through_with_the_shape_it_was_given():
    with pytest.raises(RuntimeError) as caught:
        check_loss(as_loss(lambda Z1, Z2: (Z1 @ Z2).mean()), 3)
    assert "random embeddings of shape (8, 3)" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="unsupported operand"):
        check_loss(as_loss(lambda Z1, Z2: Z1 + "Z2"))


def test_a_function_of_a_singular_batch_is_tried_on_enough_rows():
    def log_volume(Z1, Z2):
        return -torch.linalg.cholesky(torch.cov(Z1.mT)).diagonal().log().sum()

    check_loss(as_loss(log_volume), n_components=20)


def test_the_check_draws_from_no_global_stream_and_changes_nothing():
    state = torch.get_rng_state()
    loss = BYOL()
    before = dict(vars(loss))
    check_loss(loss)
    assert torch.equal(torch.get_rng_state(), state)
    assert vars(loss) == before


def test_a_callable_that_ignores_scale_says_so():
    """The regulariser divides by the components' variance then."""
    loss = CallableLoss(lambda Z1, Z2: 1 - torch.cosine_similarity(Z1, Z2).mean(), scale_invariant=True)
    Z = torch.tensor([[1.0, 0.0], [-1.0, 4.0]])
    assert loss.scale_invariant
    assert not CallableLoss().scale_invariant
    assert loss.column_scale(SampleStatistics(Batch((Z, Z)))).tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (SimCLR(temperature=0.0), "temperature=0.0: expected a finite number > 0"),
        (SimCLR(temperature=float("nan")), "temperature=nan"),
        (BYOL(predictor="cubic"), "predictor='cubic': expected one of mlp, linear"),
        (BYOL(hidden=0), "hidden=0"),
        (BYOL(decay=1.5), "decay=1.5"),
        (Autoencoder(decoder_kernel="cubic"), "decoder_kernel='cubic': expected one of gaussian, linear"),
        (Autoencoder(reconstruction="both"), "reconstruction='both'"),
        (Autoencoder(lengthscale=-1.0), "lengthscale=-1.0"),
        (Autoencoder(decoder_regularization=1e-9), "decoder_regularization=1e-09.*at least 1e-06"),
        (Autoencoder(covariance_weight=-1.0), "covariance_weight=-1.0"),
        (SpectralContrastive(negatives="some"), "negatives='some': expected 'all' or 'triplet'"),
        (CallableLoss(), "has no function"),
    ],
    ids=str,
)
def test_parameters_out_of_range(loss, message):
    with pytest.raises(ValueError, match=message):
        check_loss(loss)


def test_a_batch_without_what_the_loss_needs_is_named():
    Z = torch.ones(3, 2)
    with pytest.raises(ValueError, match="SimCLR compares 2 views"):
        SimCLR().terms(Batch((Z,)))
    with pytest.raises(ValueError, match="CallableLoss compares 2 views"):
        as_loss(distance).terms(Batch((Z,)))
    with pytest.raises(ValueError, match="needs target_Z"):
        BYOL().terms(Batch((Z, Z), parameters=BYOL().parameters(2)))
    with pytest.raises(ValueError, match=r"trains a predictor: Batch\(\.\.\., parameters="):
        BYOL().terms(Batch((Z, Z), target_Z=(Z, Z)))
    with pytest.raises(ValueError, match="needs X"):
        Autoencoder().terms(Batch((Z,)))
    with pytest.raises(ValueError, match="reconstructs vectors"):
        Autoencoder().terms(Batch((Z,), X=["a", "b", "c"]))
