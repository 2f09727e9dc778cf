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
from krepes.losses.batch import SampleStatistics
from refusals import refuses


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
    message = ("function(Z1, Z2)", "views_needed")
    with refuses(ValueError, message):
        check_loss(as_loss(function))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda Z: Z.square().sum(1),
            ("(8,)", "'loss'", "mean()"),
        ),
        (lambda Z: 1.0, "'loss'"),
        (lambda Z: Z.mean().item(), "'loss'"),
        (lambda Z: None, ("NoneType", "'loss'")),
        (lambda Z: (Z.mean(), Z.var()), "'loss'"),
        (lambda Z: {}, ("empty", "dict")),
        (lambda Z: {"a": Z.mean(), "b": Z}, ("(8, 2)", "'b'")),
        (lambda Z: {"total": Z.mean()}, "'total'"),
        (lambda Z: {1: Z.mean()}, ("1", "named", "term")),
    ],
)
def test_what_is_no_loss(result, message):
    with refuses(ValueError, message):
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
    with refuses(ValueError, "CallableLoss"):
        check_loss(as_loss(function))


class NotADict(Loss):
    def terms(self, batch):
        return batch.Z[0].mean()


def test_a_loss_class_is_held_to_the_same():
    with refuses(ValueError, "NotADict()"):
        check_loss(NotADict())


def test_an_error_of_the_function_itself_comes_through_with_the_shape_it_was_given():
    with pytest.raises(RuntimeError) as caught:
        check_loss(as_loss(lambda Z1, Z2: (Z1 @ Z2).mean()), 3)
    assert "random embeddings of shape (8, 3)" in caught.value.__notes__[0]
    with refuses(TypeError, "unsupported", "operand"):
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
        (SimCLR(temperature=0.0), "temperature=0.0"),
        (SimCLR(temperature=float("nan")), "temperature=nan"),
        (BYOL(predictor="cubic"), "predictor='cubic'"),
        (BYOL(hidden=0), "hidden=0"),
        (BYOL(decay=1.5), "decay=1.5"),
        (Autoencoder(decoder_kernel="cubic"), "decoder_kernel='cubic'"),
        (Autoencoder(reconstruction="both"), "reconstruction='both'"),
        (Autoencoder(lengthscale=-1.0), "lengthscale=-1.0"),
        (Autoencoder(decoder_regularization=1e-9), "decoder_regularization=1e-09"),
        (Autoencoder(covariance_weight=-1.0), "covariance_weight=-1.0"),
        (SpectralContrastive(negatives="some"), ("negatives='some'", "'all'", "'triplet'")),
        (CallableLoss(), "function"),
    ],
    ids=str,
)
def test_parameters_out_of_range(loss, message):
    with refuses(ValueError, message):
        check_loss(loss)


def test_a_batch_without_what_the_loss_needs_is_named():
    Z = torch.ones(3, 2)
    with refuses(ValueError, "SimCLR", "2 views"):
        SimCLR().terms(Batch((Z,)))
    with refuses(ValueError, "CallableLoss", "2 views"):
        as_loss(distance).terms(Batch((Z,)))
    with refuses(ValueError, "target_Z"):
        BYOL().terms(Batch((Z, Z), parameters=BYOL().parameters(2)))
    with refuses(ValueError, "parameters="):
        BYOL().terms(Batch((Z, Z), target_Z=(Z, Z)))
    with refuses(ValueError, "Batch(Z, X=...)", "needs X"):
        Autoencoder().terms(Batch((Z,)))
    with refuses(ValueError, "reconstructs", "vectors"):
        Autoencoder().terms(Batch((Z,), X=["a", "b", "c"]))
