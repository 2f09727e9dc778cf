"""What training on samples is equal to, and what it does not depend on."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding, load
from krepes.base.components import named
from krepes.features import FeatureSpace
from krepes.features.task import samples_of
from krepes.kernels import Gaussian, Linear
from krepes.landmarks import Uniform
from krepes.landmarks.nystrom import NystromMap
from krepes.losses import BarlowTwins, KernelPCA, Loss, SimpleContrastive, SpectralContrastive, VICReg
from krepes.losses.directions import DirectionLoss
from krepes.report.facts import steps_words
from krepes.solvers import SGD, MomentDescent
from krepes.solvers.sgd import KernelPreconditioner
from krepes.solvers.sgd.coordinates import Landmarks, Whitened
from krepes.solvers.sgd.feature_windows import FeatureWindows, view_pairs
from krepes.solvers.sgd.objective import GAMMA, Objective, P
from krepes.views import Tabular
from sample_problems import PAIRS, X, fitted, full_batch, random_batch

LOSSES = [cls() for cls in named(Loss).values()]
WITH_VIEWS = [loss for loss in LOSSES if loss.views_needed > 1]


def embedded(model):
    return model.transform(X)


def worst(Z1, Z2):
    return np.abs(Z1 - Z2).max() / np.abs(Z2).max()


@pytest.mark.parametrize("loss", [SpectralContrastive(), BarlowTwins(center=False)], ids=str)
def test_descent_on_A_preconditioned_by_the_kernel_is_descent_on_W(loss):
    """With P = K_mm (lam = 0), plain gradient descent on A equals gradient descent on W."""
    plain = {"optimizer": "gradient", "learning_rate": 0.05, "max_epochs": 8}
    preconditioned = full_batch(
        **plain, coordinates="landmarks", preconditioner=KernelPreconditioner(damping=0.0)
    )
    solvers = (full_batch(**plain), preconditioned, full_batch(**plain, coordinates="landmarks"))
    on_W, on_A, without = (fitted(loss, solver, regularization=0.0) for solver in solvers)
    assert worst(embedded(on_A), embedded(on_W)) <= 1e-8
    assert worst(embedded(without), embedded(on_W)) > 1e-3


@pytest.mark.parametrize("kind", [Whitened, Landmarks])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradients_agree_with_finite_differences(loss, kind):
    """Of the whole objective, regulariser included, with respect to everything that is trained, in float64."""
    generator = torch.Generator().manual_seed(1)
    landmarks = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    coordinates = kind(NystromMap(Gaussian(1.0), landmarks, torch.float64))
    objective = Objective(loss, coordinates, lam=0.3)
    theta = {P: torch.randn(7, 3, generator=generator, dtype=torch.float64)}
    if objective.learned:
        theta[GAMMA] = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    if loss.offers("parameters"):
        theta |= loss.parameters(3, generator)
    target = {k: v + 0.1 for k, v in theta.items()} if loss.target_decay is not None else None
    samples = random_batch(loss, width=7)
    _, gradient = objective.gradient(theta, samples, target)
    step = 1e-6
    for name, value in theta.items():
        direction = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        ends = [
            objective.values({**theta, name: value + sign * step * direction}, samples, target)["total"]
            for sign in (1, -1)
        ]
        expected = (gradient[name] * direction).sum().item()
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(expected, rel=1e-5, abs=1e-8), name


@pytest.mark.parametrize("damping", [1e-3, 0.5])
def test_the_damped_kernel_preconditioner_is_the_same_in_both_coordinates(damping):
    plain = {"optimizer": "gradient", "learning_rate": 0.05, "max_epochs": 8}
    plain["preconditioner"] = KernelPreconditioner(damping)
    models = [
        fitted(SpectralContrastive(), full_batch(**plain, coordinates=coordinates))
        for coordinates in ("whitened", "landmarks")
    ]
    assert worst(embedded(models[0]), embedded(models[1])) <= 1e-8


@pytest.mark.parametrize(
    ("loss", "rate"), [(BarlowTwins(), 0.02), (VICReg(), 0.02), (KernelPCA(), 0.05)], ids=str
)
def test_full_batches_reach_the_loss_of_the_moment_solver(loss, rate):
    """With b = n, SGD minimises the same objective as the solvers of moments, to 1 %, and gets no lower."""
    by_moments = fitted(loss, MomentDescent(max_iter=3000, tol=1e-9)).history_[-1]["total"]
    trained = fitted(loss, full_batch(learning_rate=rate, max_epochs=3000)).history_[-1]["total"]
    assert trained >= by_moments - 1e-5 * abs(by_moments)
    assert trained <= by_moments + 0.01 * abs(by_moments)


def test_simple_contrastive_reaches_its_closed_form():
    closed = fitted(SimpleContrastive(), "closed_form")
    trained = fitted(SimpleContrastive(), full_batch(learning_rate=0.02, max_epochs=1500))
    values = [
        sum(v for name, v in model.history_[-1].items() if name in ("positive", "negative"))
        for model in (closed, trained)
    ]
    assert values[1] >= values[0] - 1e-9
    assert values[1] <= values[0] + 0.001 * abs(values[0])


@pytest.mark.parametrize("coordinates", ["whitened", "landmarks"])
@pytest.mark.parametrize("loss", [SimpleContrastive(), SpectralContrastive(), KernelPCA()], ids=str)
def test_the_constraint_holds(loss, coordinates):
    """A^T K_mm A = I after training, for a loss that asks for it and for one that does not."""
    solver = SGD(batch_size=32, max_epochs=3, coordinates=coordinates, constraint="orthogonal")
    model = fitted(loss, solver)
    K_mm = model.kernel_(model.landmarks_).double().numpy()
    A = model.coefficients_
    assert np.abs(A.T @ K_mm @ A - np.eye(3)).max() <= 1e-8


@pytest.mark.parametrize("loss", WITH_VIEWS, ids=str)
def test_transform_is_coefficients_times_kernel(loss):
    """f(x) = A^T k_x + gamma, in either coordinates; from a file too."""
    for coordinates in ("whitened", "landmarks"):
        model = fitted(loss, SGD(batch_size=50, max_epochs=2, coordinates=coordinates))
        K = model.kernel_(torch.from_numpy(X), model.landmarks_).numpy()
        assert worst(embedded(model), K @ model.coefficients_ + model.intercept_) <= 1e-12


@pytest.mark.parametrize("loss", [loss for loss in WITH_VIEWS if loss.scale_invariant], ids=str)
def test_losses_that_ignore_scale_return_unit_variance(loss):
    """Of every component, or of all together where the loss only ignores their common scale."""
    model = fitted(loss, SGD(batch_size=50, max_epochs=3))
    model = model.rescaled("loss")
    variances = np.mean([model.transform(pairs).var(0) for pairs in PAIRS], axis=0)
    found = variances.sum() if isinstance(loss, DirectionLoss) else variances
    assert found == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_same_random_state_gives_the_same_bits(loss, tmp_path):
    models = [fitted(loss, SGD(batch_size=40, max_epochs=2)) for _ in range(2)]
    assert np.array_equal(models[0].coefficients_, models[1].coefficients_)
    assert models[0].history_ == models[1].history_
    models[0].save(tmp_path / "a.krepes")
    loaded = load(tmp_path / "a.krepes")
    assert worst(embedded(loaded), embedded(models[0])) <= 1e-12
    assert loaded.history_ == models[0].history_


def test_landmark_tuples_are_the_views_that_training_sees():
    """With p views per landmark there are m p centres, ordered by view, and A has a row for each."""
    views = Tabular(noise=0.3, n_views=2)
    settings = {"random_state": 0, "dtype": "float64", "n_landmarks": 10}
    model = KernelEmbedding(2, landmarks=Uniform(views_per_landmark=2), views=views, **settings).fit(X)
    single = KernelEmbedding(2, landmarks=Uniform(), views=views, **settings).fit(X)
    rows = torch.from_numpy(single.landmark_indices_)
    for view in range(2):
        expected = model.views_.view(torch.from_numpy(X)[rows], rows, model.seed_, view)
        assert torch.equal(model.landmarks_[10 * view : 10 * (view + 1)], expected)
    assert model.coefficients_.shape == (20, 2)
    assert np.array_equal(model.landmark_indices_, np.tile(single.landmark_indices_, 2))
    assert model.views_per_landmark_ == 2
    assert single.views_per_landmark_ == 1


def test_landmark_tuples_of_pairs_are_rows_and_their_positives():
    model = fitted(BarlowTwins(), "auto", landmarks=Uniform(views_per_landmark=2))
    rows = model.landmark_indices_[:30]
    assert np.array_equal(model.landmarks_.numpy(), np.concatenate([part[rows] for part in PAIRS]))


def test_view_matched_embeddings_are_those_of_the_paper():
    """Z_A = K_A A + gamma_A with the anchors' landmarks, Z_B likewise; a new point takes the mean of both."""
    model = fitted(
        BarlowTwins(center=False),
        full_batch(view_matched=True, max_epochs=3),
        landmarks=Uniform(views_per_landmark=2),
    )
    m = len(model.landmarks_) // 2
    A = 2 * model.coefficients_[:m]
    assert np.array_equal(A, 2 * model.coefficients_[m:])
    K = [model.kernel_(torch.from_numpy(X), model.landmarks_[v * m : (v + 1) * m]).numpy() for v in (0, 1)]
    assert worst(embedded(model), (K[0] @ A + K[1] @ A) / 2 + model.intercept_) <= 1e-12


def windows_of(n_rows, budget, held_out=0, fresh=False, n_views=2, functions=None, **settings):
    """Feature windows over rows that are their own features; view v adds 1000 v."""
    rows = torch.arange(n_rows, dtype=torch.float64)[:, None].repeat(1, 2)

    class Shift(Tabular):
        def view(self, X, rows, seed, index):
            return X + 1000.0 * index

    space = replace(FeatureSpace.on(Linear(), torch.eye(2).double()), views=Shift(n_views=n_views))
    samples = samples_of(space, space.reader(rows), rows_per_block=2)
    functions = functions or [lambda X: X]
    return FeatureWindows(
        samples, functions, 2, torch.float64, budget, fresh=fresh, held_out=held_out, **settings
    )


@pytest.mark.parametrize("budget", [10**6, 2 * 8 * 2 * 16, 1])
@pytest.mark.parametrize("held_out", [0, 5])
def test_an_epoch_sees_every_row_once_and_held_out_rows_never(budget, held_out):
    """Whatever the memory budget; both views of a row come together, and positions resume an epoch."""
    windows = windows_of(53, budget, held_out)
    assert windows.kept == (budget == 10**6)
    batches = list(windows.batches(1, 7))
    first = torch.cat([batch.features[0][:, 0] for _, batch in batches])
    second = torch.cat([batch.features[1][:, 0] for _, batch in batches])
    expected = [row for row in range(53) if row not in windows.excluded]
    assert sorted(first.tolist()) == expected
    assert torch.equal(second, first + 1000)
    assert len(windows.excluded) == held_out
    assert sum(len(batch) for batch in windows.held_out_batches(4)) == held_out
    for stop in (1, 3, len(batches) - 1):
        resumed = list(windows_of(53, budget, held_out).batches(1, 7, start=batches[stop - 1][0]))
        assert [position for position, _ in resumed] == [position for position, _ in batches[stop:]]
        for (_, mine), (_, theirs) in zip(resumed, batches[stop:]):
            assert torch.equal(mine.features[0], theirs.features[0])
    again = torch.cat([batch.features[0][:, 0] for _, batch in windows.batches(2, 7)])
    assert not torch.equal(again, first)


def test_replays_deal_every_stretch_again_before_the_next_comes():
    """Stretches partition the rows; each comes three times in other batches, and counts as read once."""
    windows = windows_of(60, 10**6, held_out=4, replays=3, replay_batches=2)
    batches = [batch.features[0][:, 0].numpy() for _, batch in windows.batches(1, 4)]
    stretches = np.array(batches).reshape(7, 3, 8)  # 56 rows: 7 stretches of 2 batches of 4
    kept = [row for row in range(60) if row not in windows.excluded]
    assert sorted(stretches[:, 0].ravel()) == kept
    assert (np.sort(stretches) == np.sort(stretches[:, :1])).all()
    assert all(len(np.unique(replays, axis=0)) == 3 for replays in stretches)
    assert windows.rows_read == len(kept)


@pytest.mark.parametrize("budget", [2 * 8 * 2 * 16, 1])
def test_replays_stay_within_their_window(budget):
    """Where features are computed window by window, every row comes so often, and once as read."""
    windows = windows_of(53, budget, held_out=5, replays=3, replay_batches=2)
    seen = np.concatenate([batch.features[0][:, 0].numpy() for _, batch in windows.batches(1, 4)])
    rows, counts = np.unique(seen, return_counts=True)
    assert len(rows) == windows.rows_read == 48
    assert (counts == 3).all()
    assert (np.diff(np.minimum(seen // windows.window_rows, windows.n_windows - 1)) >= 0).all()


def test_replays_of_one_stretch_of_all_rows_are_epochs():
    """At a constant rate, 3 epochs with 2 replays of a full batch are 6 epochs; they read half as much."""
    constant = {"learning_rate": 0.01, "min_learning_rate": 0.01, "warmup_epochs": 0}
    epochs = fitted("barlow_twins", full_batch(max_epochs=6, **constant))
    replays = fitted("barlow_twins", full_batch(max_epochs=3, replays=2, **constant))
    assert worst(embedded(replays), embedded(epochs)) <= 1e-9
    assert 2 * replays.history_[-1]["rows_read"] == epochs.history_[-1]["rows_read"]


def shifts(windows, n_epochs):
    """Which views each epoch saw."""
    return [
        tuple(round(view[0, 0].item()) // 1000 for view in next(windows.batches(epoch, 8))[1].features)
        for epoch in range(n_epochs)
    ]


@pytest.mark.parametrize("n_views", [3, 4, 5, 8])
@pytest.mark.parametrize("budget", [10**6, 1], ids=["kept", "computed again"])
def test_epochs_take_turns_with_all_pairs_of_views(n_views, budget):
    """Every pair comes once before any comes again, and a round of epochs sees all views (but one, if odd)."""
    n_pairs, in_round = n_views * (n_views - 1) // 2, n_views // 2
    seen = shifts(windows_of(8, budget, n_views=n_views), 2 * n_pairs)
    assert seen[:n_pairs] == seen[n_pairs:]
    assert {frozenset(pair) for pair in seen} == set(map(frozenset, combinations(range(n_views), 2)))
    for first in range(0, n_pairs, in_round):
        assert len(set().union(*seen[first : first + in_round])) == 2 * in_round


@pytest.mark.parametrize("n_kept", [2, 3, 5])
def test_where_not_all_views_fit_into_memory_as_many_as_do_take_turns(n_kept):
    """Also in a run that goes on with a later epoch; what is held out is the same as ever."""
    budget = n_kept * 2 * 8 * 10 + 1
    windows = windows_of(10, budget, n_views=6, held_out=2)
    assert windows.kept
    pairs = view_pairs(n_kept) if n_kept > 2 else [(0, 1)]
    assert shifts(windows, 2 * len(pairs)) == 2 * pairs
    batches = [
        next(some.batches(1, 8))[1] for some in (windows, windows_of(10, budget, n_views=6, held_out=2))
    ]
    assert torch.equal(batches[0].features[1], batches[1].features[1])
    held_out = [windows_of(10, b, n_views=6, held_out=2).held_out_batches(2)[0] for b in (budget, 10**6, 1)]
    assert all(torch.equal(batch.features[1], held_out[0].features[1]) for batch in held_out)


def test_matched_views_are_kept_in_pairs():
    functions = [lambda X: X, lambda X: X]
    windows = windows_of(10, 5 * 2 * 8 * 10, n_views=6, functions=functions)
    assert windows.stored_views == [0, 1, 2, 3]
    assert shifts(windows, 4) == [(0, 1), (2, 3), (0, 3), (2, 1)]


def test_the_budget_counts_the_rows_themselves_and_the_negatives():
    """Where a batch holds them."""
    two_views = 2 * 2 * 8 * 10
    assert windows_of(10, two_views).kept
    assert not windows_of(10, two_views, with_inputs=True).kept
    assert windows_of(10, two_views + 2 * 8 * 10, with_inputs=True).kept
    triplets = windows_of(10, two_views)
    reader = triplets.samples.reader
    triplets.samples.reader = replace(reader, data=replace(reader.data, sources=reader.data.sources * 3))
    assert not triplets.kept


def test_a_few_rows_at_the_end_make_no_window_of_their_own():
    """A batch of one row has no contrast and no variance."""
    windows = windows_of(25, 1)  # reads of 8 rows
    sizes = [len(batch) for _, batch in windows.batches(0, 16)]
    assert sizes == [8, 8, 9]
    assert [len(batch) for _, batch in windows_of(25, 1).batches(0, 16, start=(2, 0))] == [9]


def test_one_batch_of_all_rows_is_shuffled_too():
    """A loss may compare a row with the next one."""
    windows = windows_of(40, 10**6)
    orders = [next(windows.batches(epoch, 40))[1].features[0][:, 0].tolist() for epoch in (0, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(40))
    assert orders[0] != orders[1] != list(range(40))


@pytest.mark.parametrize("budget", [10**6, 1], ids=["kept", "computed again"])
def test_matched_views_meet_their_own_function(budget):
    """With one function for even and one for odd views, any even view is paired with any odd one."""
    functions = [lambda X: X, lambda X: X + 10_000_000.0]
    seen = shifts(windows_of(8, budget, n_views=4, functions=functions), 4)
    assert all(first < 10_000 <= second for first, second in seen)
    assert sorted((first, second - 10_000) for first, second in seen) == [(0, 1), (0, 3), (2, 1), (2, 3)]


def test_fresh_views_change_with_the_epoch_and_kept_ones_do_not():
    noise = {"views": Tabular(noise=0.3, n_views=2), "n_landmarks": 20, "random_state": 0}
    seen = {}
    for fresh in (False, True):
        model = KernelEmbedding(2, loss="barlow_twins", **noise)
        model.solver = SGD(max_epochs=1, fresh_views=fresh, batch_size=150, validation_fraction=0)
        model.fit(X)
        samples = samples_of(model.space_, model.space_.reader(X))
        windows = FeatureWindows(samples, [model.features_], model.rank_, fresh=fresh)
        seen[fresh] = [next(windows.batches(epoch, 150))[1].features[0].sum(0) for epoch in (0, 1)]
    assert torch.allclose(*seen[False], rtol=1e-4)
    assert not torch.allclose(*seen[True], rtol=1e-4)


def test_bfloat16_features_change_little():
    models = [
        fitted("barlow_twins", full_batch(max_epochs=20, feature_dtype=kind), dtype="float32")
        for kind in ("auto", "bfloat16")
    ]
    correlations = np.corrcoef(embedded(models[0]).T, embedded(models[1]).T)[:3, 3:].diagonal()
    assert (np.abs(correlations) > 0.99).all()
    assert not np.array_equal(models[0].coefficients_, models[1].coefficients_)


@pytest.mark.parametrize(
    ("loss", "solver"), [("simclr", SGD(max_epochs=3)), ("vicreg", "auto"), ("kernel_pca", "auto")]
)
def test_a_callback_sees_what_the_history_gets(loss, solver):
    """Epochs of training, steps of a descent, the one step of a closed form."""
    seen = []
    model = KernelEmbedding(3, loss=loss, solver=solver, n_landmarks=30, random_state=0)
    model.fit(X, callback=lambda step, values: seen.append((step, values)))
    assert [values for _, values in seen] == model.history_
    assert [step for step, _ in seen] == list(range(1, len(seen) + 1))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, callback=stop)


def stop(step, values):
    raise KeyboardInterrupt


def test_early_stopping_returns_the_best_epoch():
    solver = SGD(batch_size=16, max_epochs=40, patience=3, validation_fraction=0.3, learning_rate=1.0)
    model = fitted("vicreg", solver)
    values = [epoch["held_out"] for epoch in model.history_]
    best = int(np.argmin(values))
    assert len(values) == model.n_iter_ == best + 1 + 3
    assert model.best_epoch_ == best + 1 < 40
    assert steps_words(model) == f", {best + 4} epochs, epoch {best + 1} taken"
    assert fitted("vicreg", "auto").best_epoch_ is None


def test_feature_noise_has_the_variance_it_says():
    """Noise of variance c in every direction of the feature space, in either coordinates."""
    features = fitted("barlow_twins", "auto").features_
    generator = torch.Generator().manual_seed(0)
    for kind in (Whitened, Landmarks):
        coordinates = kind(features)
        draws = coordinates.to_phi(coordinates.noise(20_000, generator))
        covariance = draws.mT @ draws / len(draws)
        assert (covariance - torch.eye(features.rank)).abs().max() <= 4 * (2 / 20_000) ** 0.5 * 2


@pytest.mark.parametrize("feature_noise", [0.001, 0.001 * (1 + 1e-15), 0.001 * (1 + 1e-13)])
def test_rounding_does_not_choose_the_start_of_a_loss_that_ignores_scale(feature_noise):
    """All scales of the start are equal for it; the first is taken, not the one that rounding prefers."""
    model = KernelEmbedding(
        n_landmarks=20, n_components=3, loss="byol", dtype="float64", kernel="gaussian", random_state=0
    )
    model.set_params(solver__max_epochs=2, feature_noise=0.001)
    expected = model.fit(X).history_[-1]["total"]
    found = model.set_params(feature_noise=feature_noise).fit(X).history_[-1]["total"]
    assert found == pytest.approx(expected, rel=1e-8)
