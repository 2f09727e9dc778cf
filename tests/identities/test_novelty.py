"""Novelty detection: scores against dense formulas, p-values as the theorem states them, and sums that add up."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import betabinom
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from faults import Interrupted
from krepes import load
from krepes.engines import Local
from krepes.kernels import Custom, Gaussian, Laplacian
from krepes.machines import NoveltyDetector
from krepes.machines.kernel_search import compared
from krepes.machines.novelty.calibration import Calibration, calibrates
from krepes.machines.novelty.cross_score import MEDIANS, CrossScore, CrossTrials, crosses, merit
from krepes.machines.novelty.explanation import column_deviations
from krepes.machines.novelty.scores import SCORES, Distance, Regression, SampleKernel, Variance
from refusals import refuses, warns_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3)) @ np.array([[1.0, 0.5, 0], [0, 1, 0.3], [0, 0, 1]])
NEW = 2 * RNG.normal(size=(40, 3))
LEARNED = ~calibrates(torch.arange(160), 0.4)
FIXED = {"kernel": Gaussian(1.5), "penalty": 0.05, "random_state": 0, "preprocess": None}


def gaussian(A, B, lengthscale=1.5):
    return np.exp(-np.square(A[:, None] - B[None]).sum(-1) / (2 * lengthscale**2))


def dense_scores(score: str, train, rows, penalty=0.05, k=gaussian):
    """The formulas on the n x n kernel matrix."""
    K, K_x = k(train, train), k(rows, train)
    B = np.linalg.inv(K + penalty * np.eye(len(K)))
    if score == "variance":
        return -(1 - np.einsum("ij,jk,ik->i", K_x, B, K_x))
    if score == "regression":
        return K_x @ B.sum(1)
    return K_x.mean(1)  # the squared distance is 1 - 2 K_x.mean(1) + K.mean()


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_the_dense_formulas(score):
    """With every learned row a landmark, the Nyström scores are those of the kernel matrix."""
    model = NoveltyDetector(measure=score, **FIXED).fit(X)
    np.testing.assert_allclose(
        model.score_samples(NEW), dense_scores(score, X[LEARNED], NEW), rtol=1e-8, atol=1e-9
    )


def test_the_variance_is_that_of_scikit_learns_gaussian_process():
    model = NoveltyDetector(**FIXED).fit(X)
    peer = GaussianProcessRegressor(RBF(1.5), alpha=0.05, optimizer=None).fit(
        X[LEARNED], np.ones(LEARNED.sum())
    )
    np.testing.assert_allclose(
        -model.score_samples(NEW), peer.predict(NEW, return_std=True)[1] ** 2, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("score", SCORES)
def test_few_landmarks_include_what_they_do_not_span(score):
    """On m landmarks the kernel is Nyström's between rows, and k(x, x) = 1 stays what it is."""
    points = X[:12]
    model = NoveltyDetector(measure=score, landmarks=points, **FIXED).fit(X)
    root = np.linalg.inv(gaussian(points, points))

    def nystrom(A, B):
        return gaussian(A, points) @ root @ gaussian(points, B)

    expected = dense_scores(score, X[LEARNED], NEW, k=nystrom)
    np.testing.assert_allclose(model.score_samples(NEW), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("score", [Variance, Regression])
def test_leave_one_out_scores_are_those_of_refits(score):
    """penalty - 1/B_ii and 1 - (B 1)_i / B_ii are the scores of a row from all others."""
    rows = X[:20]
    sample = SampleKernel(torch.from_numpy(gaussian(rows, rows)), torch.from_numpy(gaussian(NEW, rows)))
    left_out, others = score.in_sample(sample, 0.05)
    refits = [dense_scores(score.name, np.delete(rows, i, 0), rows[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(left_out, refits, rtol=1e-8)
    np.testing.assert_allclose(others, dense_scores(score.name, rows, NEW), rtol=1e-8, atol=1e-12)


def test_far_rows_are_told_apart_by_their_distance():
    """Where k(x, x_i) is below the rounding of 1, ties would keep rows from being alarms."""
    model = NoveltyDetector(measure="distance", **FIXED | {"kernel": Gaussian(0.3)}).fit(X)
    far = X[:10] + 4.0
    scores = model.score_samples(far)
    assert (scores > 0).all()
    assert np.median(scores) < 1e-20
    assert len(np.unique(scores)) == 10
    calibration = model._solved().calibration.scores
    assert len(np.unique(calibration)) == len(calibration)


def test_leave_one_out_distances_rank_as_those_of_refits():
    rows = X[:20]
    sample = SampleKernel(torch.from_numpy(gaussian(rows, rows)), torch.from_numpy(gaussian(NEW, rows)))
    left_out, others = Distance.in_sample(sample, 0.05)
    expected = [gaussian(rows[i : i + 1], np.delete(rows, i, 0)).mean() for i in range(20)]
    np.testing.assert_allclose(left_out, expected)
    np.testing.assert_allclose(others, gaussian(NEW, rows).mean(1))


def test_kernels_are_normalised():
    """A kernel of the user's times g(x) g(y) gives the same scores."""

    def scaled(A, B):
        g = [1 + np.abs(np.asarray(part)).sum(1) for part in (A, B)]
        return gaussian(np.asarray(A), np.asarray(B)) * g[0][:, None] * g[1]

    given = {name: FIXED[name] for name in ("penalty", "random_state", "preprocess")}
    plain, other = (NoveltyDetector(kernel=k, **given).fit(X) for k in (Gaussian(1.5), Custom(scaled)))
    np.testing.assert_allclose(other.score_samples(NEW), plain.score_samples(NEW), atol=1e-7)


# p-values


@pytest.mark.parametrize("score", SCORES)
def test_p_values_are_ranks_among_the_calibration_rows(score):
    model = NoveltyDetector(measure=score, **FIXED).fit(X)
    held, new = (dense_scores(score, X[LEARNED], rows) for rows in (X[~LEARNED], NEW))
    expected = [(1 + (held <= s).sum()) / (len(held) + 1) for s in new]
    np.testing.assert_allclose(model.p_values(NEW), expected)
    assert model.n_calibration_ == 64


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2, 0.5])
def test_an_alarm_is_a_p_value_up_to_the_rate(score, rate):
    """predict, decision_function, offset_ and p_values agree on every row, ties included."""
    rows = np.concatenate([NEW, X, X[~LEARNED], np.full((3, 3), 1e6)])
    with warns_of(UserWarning, "alarm") if rate == 0.01 else nullcontext():
        model = NoveltyDetector(measure=score, false_alarm_rate=rate, **FIXED).fit(X)
    alarm = model.p_values(rows) <= rate + 1e-12
    assert np.array_equal(model.predict(rows) == -1, alarm)
    assert np.array_equal(model.decision_function(rows) < 0, alarm)
    np.testing.assert_array_equal(model.decision_function(rows), model.score_samples(rows) - model.offset_)
    assert np.isfinite(model.offset_)
    assert model.attainable_rate_ == np.floor(round(rate * 65, 9)) / 65


def test_a_row_equal_to_a_calibration_row_is_as_novel_as_it():
    """Ties are conservative: the row itself counts among those at least as novel, whatever rounding does."""
    model = NoveltyDetector(**FIXED).fit(X)
    most_novel = X[~LEARNED][np.argmin(model.score_samples(X[~LEARNED]))]
    for batch in (most_novel[None], np.concatenate([NEW, most_novel[None]])):
        assert model.p_values(batch)[-1] >= 2 / 65


@pytest.mark.parametrize(
    "score", [pytest.param(score, marks=pytest.mark.full if score != "variance" else ()) for score in SCORES]
)
def test_false_alarms_are_as_rare_as_promised(score):
    """P(p <= a) = floor(a (n + 1)) / (n + 1): over 200 fits with choice of the kernel, the alarms of new normal rows.

    Each fit's number is Beta-binomial; the mean of 200 must lie within 4 standard errors, and single ones in their
    99.9 % band but for about 1 in 1000.
    """
    rng, counts, m = np.random.default_rng(1), [], 25
    for trial in range(200):
        rows = np.column_stack([rng.normal(size=75), rng.exponential(size=75)])
        model = NoveltyDetector(measure=score, kernel="gaussian", false_alarm_rate=0.1, random_state=trial)
        model.fit(rows[:50])
        counts.append((model.predict(rows[50:]) == -1).sum())
    n = model.n_calibration_
    k = np.floor(round(0.1 * (n + 1), 9))
    law = betabinom(m, k, n + 1 - k)
    assert abs(np.mean(counts) - m * k / (n + 1)) < 4 * law.std() / np.sqrt(200)
    assert np.mean([(law.ppf(0.0005) <= c <= law.ppf(0.9995)) for c in counts]) > 0.98


def test_p_values_of_normal_rows_are_uniform():
    """P(p <= j / (n + 1)) = j / (n + 1) for every j, within 4 standard errors."""
    rng, n = np.random.default_rng(2), 19
    held = np.sort(rng.normal(size=(4000, n + 1)), axis=1)
    place = rng.integers(n + 1, size=4000)  # one of n + 1 exchangeable scores is new
    p = [Calibration.of(np.delete(row, i), 0.0).p_values(row[i : i + 1])[0] for row, i in zip(held, place)]
    for j in range(1, n + 2):
        share = j / (n + 1)
        assert abs(np.mean(np.array(p) <= share + 1e-12) - share) <= 4 * np.sqrt(share * (1 - share) / 4000)


def test_calibration_rows_change_nothing_that_is_learned():
    """Scaling, kernel, landmarks and scores are the same whatever the rows that calibrate are."""
    other = X.copy()
    other[~LEARNED] = RNG.normal(size=((~LEARNED).sum(), 3)) * 1000
    first, second = (NoveltyDetector(random_state=0).fit(rows) for rows in (X, other))
    assert str(first.choice_) == str(second.choice_)
    assert np.array_equal(first.score_samples(NEW), second.score_samples(NEW))
    assert not np.isin(first.landmark_indices_, np.flatnonzero(~LEARNED)).any()
    tables = [pd.DataFrame(rows, columns=list("abc")) for rows in (X, other)]
    first, second = (NoveltyDetector(random_state=0).fit(rows) for rows in tables)
    new = pd.DataFrame(NEW, columns=list("abc"))
    assert np.array_equal(first.score_samples(new), second.score_samples(new))


def test_which_rows_calibrate_follows_from_their_index():
    rows = torch.arange(5000)
    for share, number in ((0.05, 1), (0.3, 6), (0.95, 19)):
        held = calibrates(rows, share)
        assert (held.reshape(-1, 20).sum(1) == number).all()
        some = torch.from_numpy(np.random.default_rng(0).permutation(5000)[:300])
        assert np.array_equal(calibrates(some, share), held[some.numpy()])
    by_place = calibrates(rows, 0.4).reshape(-1, 20).mean(0)
    assert abs(by_place - 0.4).max() < 4 * np.sqrt(0.4 * 0.6 / 250)


# The choice


def test_crosses_take_every_column_from_one_of_two_rows():
    rows = torch.from_numpy(X[:30])
    crossed = crosses(rows, [[0], [1, 2]], 200, 0)
    for column in range(3):
        assert np.isin(crossed[:, column], rows[:, column]).all()
    pairs = {tuple(row) for row in rows[:, 1:].tolist()}
    assert all(tuple(row) in pairs for row in crossed[:, 1:].tolist())
    assert not all(tuple(row) in {tuple(r) for r in rows.tolist()} for row in crossed.tolist())


def test_merit_is_the_area_under_the_curve():
    a, b = RNG.normal(size=50).round(1), RNG.normal(size=70).round(1)
    expected = np.mean([(x > y) + 0.5 * (x == y) for x in a for y in b])
    assert merit(torch.from_numpy(a), torch.from_numpy(b)) == pytest.approx(expected)


def test_columns_of_other_units_are_standardised():
    """Two columns that are tied to each other, and noise in units a thousand times larger."""
    z = RNG.normal(size=(300, 1))
    rows = np.hstack([z, z + 0.05 * RNG.normal(size=(300, 1)), 1000 * RNG.normal(size=(300, 1))])
    model = NoveltyDetector(random_state=0).fit(rows)
    assert model.choice_.chosen.metric == "standardised"
    assert model.predict([[1.5, -1.5, 0.0]]) == -1


def test_the_start_is_kept_unless_another_kernel_is_clearly_better():
    trials = CrossTrials(CrossScore(Variance), torch.from_numpy(X), None, 0)
    kernels = [Laplacian(norm=1), Gaussian()]
    found = compared(trials, kernels, search_lengthscale=True, metric=None, standardise=False)
    start = found.tried[0]
    assert (start.name, start.medians, start.penalty) == ("Laplacian (L1)", 2.0, 0.01)
    best = max(found.tried, key=lambda each: each.merit)
    assert found.chosen is (best if best.merit > start.merit + 0.02 else start)
    assert len(found.tried) == 2 * len(MEDIANS) * len(Variance.penalties)


# Parts that add up


@pytest.mark.parametrize("score", SCORES)
def test_parts_equal_the_whole(score):
    """fit = partial_fit in parts = merged workers, in the same space; scores, p-values and threshold."""
    whole = NoveltyDetector(measure=score, random_state=0, n_landmarks=40).fit(X)
    weightless = whole.empty_copy()
    for first in range(0, 160, 37):
        weightless.partial_fit(X[first : first + 37])
    workers = [whole.empty_copy().partial_fit(X[a:b], first_row=a) for a, b in ((90, 160), (0, 90))]
    merged = workers[0].merge(workers[1])
    for other in (weightless, merged):
        np.testing.assert_allclose(other.score_samples(NEW), whole.score_samples(NEW), rtol=1e-8, atol=1e-10)
        np.testing.assert_array_equal(other.p_values(NEW), whole.p_values(NEW))
        assert other.offset_ == pytest.approx(whole.offset_)
        assert other.n_samples_seen_ == 160


def test_the_first_part_learns_from_the_rows_of_its_own_indices():
    model = NoveltyDetector(random_state=0).partial_fit(X, first_row=1000)
    held = np.flatnonzero(calibrates(torch.arange(1000, 1160), 0.4)) + 1000
    assert not np.isin(model.landmark_indices_, held).any()
    assert sorted(model.total_.kept.rows.tolist()) == held.tolist()


def test_weights_count_rows_that_are_learned():
    """A learned row of weight 2 counts twice; rows of weight 0 are not there; calibration rows count once."""
    w = np.random.default_rng(0).integers(0, 3, 160).astype(float)
    model = NoveltyDetector(landmarks=X[LEARNED][:30], **FIXED).fit(X, sample_weight=w)
    times = np.repeat(X[LEARNED], w[LEARNED].astype(int), axis=0)
    points = X[LEARNED][:30]
    root = np.linalg.inv(gaussian(points, points))
    expected = dense_scores(
        "variance", times, NEW, k=lambda A, B: gaussian(A, points) @ root @ gaussian(points, B)
    )
    np.testing.assert_allclose(model.score_samples(NEW), expected, rtol=1e-6, atol=1e-7)
    assert model.n_calibration_ == (w[~LEARNED] > 0).sum()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sums", [True, False])
def test_files_give_the_same_bits(score, sums, tmp_path):
    model = NoveltyDetector(measure=score, random_state=0).fit(X)
    model.save(tmp_path / "m.krepes", sums=sums)
    again = load(tmp_path / "m.krepes")
    assert np.array_equal(again.score_samples(NEW), model.score_samples(NEW))
    assert np.array_equal(again.p_values(NEW), model.p_values(NEW))
    assert (again.offset_, again.penalty_) == (model.offset_, model.penalty_)
    if sums:
        again.partial_fit(NEW), model.partial_fit(NEW)
        np.testing.assert_array_equal(again.p_values(X), model.p_values(X))
    else:
        with refuses(ValueError, "sums=True"):
            again.partial_fit(NEW)


def test_a_sample_of_calibration_rows_is_kept():
    model = NoveltyDetector(n_kept=25, **FIXED).fit(X)
    assert model.n_calibration_ == 25
    assert calibrates(model.total_.kept.rows, 0.4).all()


# Streams and explanations


def test_a_stream_is_scored_before_it_is_learned():
    model = NoveltyDetector(random_state=0).fit(X)
    batches = [NEW[:15], NEW[15:]]
    found = list(model.monitor(batches))
    assert np.array_equal(np.concatenate([r.p_values for r in found]), model.p_values(NEW))
    assert np.array_equal(np.concatenate([r.alarms for r in found]), model.predict(NEW) == -1)
    assert (found[1].first_row, found[1].n_rows, found[1].n_alarms) == (
        15,
        40,
        (model.predict(NEW) == -1).sum(),
    )
    law = betabinom(15, 3, 65 - 3)
    assert found[0].chance == pytest.approx(law.sf(found[0].alarms.sum() - 1))
    assert "alarms so far" in str(found[0])
    learning = NoveltyDetector(random_state=0).fit(X)
    second = [r.scores for r in learning.monitor(batches, learn=True)][1]
    assert learning.n_samples_seen_ == 200
    expected = model.partial_fit(NEW[:15]).score_samples(NEW[15:])
    np.testing.assert_allclose(second, expected)


def test_the_column_that_was_changed_deviates():
    names = ["speed", "heat", "load", "state"]
    frame = pd.DataFrame(RNG.normal(size=(300, 3)), columns=names[:3]).assign(
        state=RNG.choice(["on", "off"], 300)
    )
    model = NoveltyDetector(random_state=0).fit(frame)
    broken = frame.iloc[:3].assign(heat=9.0)
    found = model.explain(broken, n_landmarks=2)
    assert [found.top_columns(i)[0][0] for i in range(3)] == ["heat"] * 3
    assert found.deviations.shape == (3, 4)
    assert found.landmarks.shape == (3, 2)
    assert np.isin(found.landmark_rows, model.landmark_indices_).all()
    assert (np.diff(found.similarities) <= 0).all()
    assert "Deviates in heat" in str(found)
    np.testing.assert_array_equal(found.scores, model.score_samples(broken))


def test_deviations_are_the_mean_of_repairing_and_spoiling():
    def score(rows):
        return -(rows[:, 0] * rows[:, 1]).abs()

    x, z = torch.tensor([[3.0, 2.0]]), torch.tensor([[1.0, 1.0]])
    found = column_deviations(score, x, z, [[0], [1]])
    assert found.tolist() == [[((-2 + 6) + (-1 + 3)) / 2, ((-3 + 6) + (-1 + 2)) / 2]]


def test_images_and_objects_have_no_columns():
    images = RNG.integers(0, 255, (80, 4, 4), dtype=np.uint8)
    model = NoveltyDetector(random_state=0).fit(images)
    assert model.explain(images[:2]).columns is None
    assert "Nearest: row" in str(model.explain(images[:2]))
    words = [f"{a}{b}" for a in "abcdefgh" for b in "xyzuvw"]
    overlap = Custom(lambda s, t: float(len(set(s) & set(t))), pairwise=True)
    model = NoveltyDetector(kernel=overlap, random_state=0).fit(words)
    assert model.score_samples(["ax", "qq"])[0] > model.score_samples(["ax", "qq"])[1]
    assert model.explain(["ax"]).deviations is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_interrupted_fit_continues_with_the_same_bits(tmp_path, monkeypatch, dtype):
    """After a pass that stopped in its middle, the same call reads the rest, and gives what a whole pass gives."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    settings = {"random_state": 0, "n_landmarks": 20, "kernel": "gaussian", "dtype": dtype}
    whole, path = NoveltyDetector(**settings, engine=Local(16)).fit(X), tmp_path / "pass"
    settings["engine"] = Interrupted(at=9)  # in the second batch of 8 blocks
    with pytest.raises(KeyboardInterrupt):
        NoveltyDetector(**settings).fit(X, checkpoint=path)
    assert path.exists()
    with refuses(ValueError, "another fit", "settings"):
        NoveltyDetector(**settings, n_kept=7).fit(X, checkpoint=path)
    resumed = NoveltyDetector(**settings).fit(X, checkpoint=path)
    assert not path.exists()
    assert np.array_equal(resumed.score_samples(NEW), whole.score_samples(NEW))
    assert np.array_equal(resumed.p_values(NEW), whole.p_values(NEW))


def test_files_out_of_core_give_what_rows_in_memory_give(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    pd.DataFrame(X, columns=list("abc")).to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    model = NoveltyDetector(random_state=0, engine=Local(16)).fit(tmp_path / "rows.npy")
    np.testing.assert_allclose(model.p_values(NEW), NoveltyDetector(random_state=0).fit(X).p_values(NEW))
    table = NoveltyDetector(random_state=0, engine=Local(16)).fit(tmp_path / "rows.parquet")
    frame = pd.DataFrame(NEW, columns=list("abc"))
    same = NoveltyDetector(random_state=0).fit(pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_allclose(table.p_values(frame), same.p_values(frame))
