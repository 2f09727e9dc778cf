"""The figures of a report are what they are said to be: nearest rows, heat, trust in maps, what not to use it for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.machines import KernelRidgeRegressor
from krepes.report import heat_maps, write_report
from krepes.report import maps as report_maps
from krepes.report.heat_maps import image_heat, moved_without, patches
from krepes.report.limits import not_for
from krepes.report.maps import NearestRows, maps, nearest_rows, neighbour_places
from krepes.report.shown_rows import ShownColumn
from krepes.sources import open_source
from refusals import refuses
from report_content import content, map_of, unpacked


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    X, y = (data.images[:300] / 16).astype(np.float32), data.target[:300]
    return KernelEmbedding(6, n_landmarks=40, random_state=0, dtype="float64").fit(X), X, y


def loop_trust(Z, places, k):
    """Trustworthiness by its definition, with loops."""
    n = len(Z)
    total = 0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        by_rank = sorted(others, key=lambda j: ((Z[i] - Z[j]) ** 2).sum())
        rank = {j: r + 1 for r, j in enumerate(by_rank)}
        near = sorted(others, key=lambda j: ((places[i] - places[j]) ** 2).sum())[:k]
        total += sum(max(0, rank[j] - k) for j in near)
    return 1 - 2 / (n * k * (2 * n - 3 * k - 1)) * total


def test_nearest_rows_and_the_usual_distance():
    """The others by their distance, as shares of sqrt(E |z - z'|^2) over independent rows."""
    Z = np.random.default_rng(0).standard_normal((40, 3)) * [1, 5, 0.1]
    found = nearest_rows(Z, 4)
    usual = np.sqrt(np.mean([((a - b) ** 2).sum() for a in Z for b in Z]))
    assert abs(found.usual - usual) < 1e-12 * usual
    for i in range(40):
        distances = {j: np.linalg.norm(Z[i] - Z[j]) for j in range(40) if j != i}
        expected = sorted(distances, key=distances.get)[:4]
        assert found.rows[i].tolist() == expected
        np.testing.assert_allclose(found.distances[i], [distances[j] / usual for j in expected], rtol=1e-7)
    assert nearest_rows(Z[:1]).rows.shape == (1, 0)
    assert nearest_rows(1e200 * Z, 1).rows[:, 0].tolist() == found.rows[:, 0].tolist()


def test_heat_of_pixels_is_how_far_the_row_moves_with_the_patch_at_its_mean(digits):
    model, X, _ = digits
    found = image_heat(model, open_source(X), (8, 8))
    assert found.grid == (8, 8)
    mean = X.mean(0, dtype=np.float64)
    Z = model.transform(X)
    for part in (0, 19, 36):
        without = X.copy()
        without[:, part // 8, part % 8] = mean[part // 8, part % 8]
        expected = np.linalg.norm(model.transform(without) - Z, axis=1)
        np.testing.assert_allclose(found.values[:, part], expected, rtol=1e-5, atol=1e-9)


def test_heat_of_columns_replaces_all_that_a_column_was_encoded_as():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(80), "b": rng.choice(list("xyz"), 80)})
    frame.loc[::7, "a"] = np.nan
    model = KernelEmbedding(3, n_landmarks=20, random_state=0, dtype="float64", loss="kernel_pca").fit(frame)
    encoder = model.input_space_.encoder
    encoded = encoder.transform(frame).astype(np.float64)
    A = model.coefficients_
    K = lambda rows: model.kernel_(rows, model.landmarks_.double().numpy()).numpy()  # noqa: E731
    found = moved_without(model, open_source(frame), encoder.groups_)
    for part, group in enumerate(encoder.groups_):
        without = encoded.copy()
        without[:, group] = encoded[:, group].mean(0)
        expected = np.linalg.norm((K(without) - K(encoded)) @ A, axis=1)
        np.testing.assert_allclose(found[:, part], expected, rtol=1e-5, atol=1e-8)
    machine = KernelRidgeRegressor(n_landmarks=20, random_state=0, kernel="gaussian").fit(
        frame, rng.standard_normal(80)
    )
    groups = machine.input_space_.encoder.groups_
    assert moved_without(machine, open_source(frame), groups).shape == (80, len(groups))


def test_heat_is_bounded(digits, monkeypatch):
    """Less work: larger patches; then fewer rows."""
    model, X, _ = digits
    assert sorted(np.concatenate(patches((7, 5, 3), 4)[0]).tolist()) == list(range(105))
    monkeypatch.setattr(heat_maps, "WORK", 300 * 40 * 64 * 20)
    found = image_heat(model, open_source(X), (8, 8))
    assert found.grid == (4, 4)
    assert found.values.shape == (300, 16)
    monkeypatch.setattr(heat_maps, "WORK", 100 * 40 * 64 * 16)
    assert image_heat(model, open_source(X), (8, 8)).values.shape == (100, 16)


def test_trust_is_the_definition_and_the_neighbour_map_has_more_of_it(digits):
    model, X, y = digits
    Z = model.transform(X[:60]).astype(np.float64)
    found = {each.name: each for each in maps(model, Z, ShownColumn("digit", y[:60], None))}
    assert list(found) == ["neighbours (t-SNE)", "principal components", "discriminants of digit"]
    for each in found.values():
        assert abs(each.trust - loop_trust(Z, each.rows, 10)) < 1e-9
    assert found["neighbours (t-SNE)"].trust > found["principal components"].trust + 0.05


def test_points_that_are_not_laid_out_lie_among_their_nearest(digits, monkeypatch):
    """At the weighted mean of the nearest laid-out rows; on a row whose representation they share."""
    model, X, _ = digits
    Z = model.transform(X).astype(np.float64)
    monkeypatch.setattr(report_maps, "FITTED", 200)
    rows, landmarks, n_laid = neighbour_places(Z, Z[:30], "tsne", 0)
    assert n_laid == 200
    laid = np.sort(np.random.default_rng(0).choice(300, 200, replace=False))
    for i in np.setdiff1d(np.arange(300), laid)[:10]:
        squares = ((Z[laid] - Z[i]) ** 2).sum(1)
        near = np.argsort(squares)[:4]
        weights = 1 / squares[near]
        expected = (weights[:, None] * rows[laid[near]]).sum(0) / weights.sum()
        np.testing.assert_allclose(rows[i], expected, rtol=1e-6)
    for i in np.intersect1d(np.arange(30), laid):
        np.testing.assert_allclose(landmarks[i], rows[i], atol=1e-6 * np.abs(rows).max())
    again = neighbour_places(Z, Z[:30], "tsne", 0)
    assert np.array_equal(again[0], rows)
    places = maps(model, Z, None, "tsne")[0]
    assert places.trust > 0.9
    assert "200 rows are laid out" in places.about


def test_which_map(digits, tmp_path):
    model, X, _ = digits
    page = content(write_report(model, X, tmp_path / "none.html", map="none"))
    assert [each["name"] for each in page["maps"]] == ["principal components"]
    with refuses(ValueError, "'tsne'"):
        write_report(model, X, tmp_path / "r.html", map="mds")
    for method, name in (("umap", "umap-learn"), ("pacmap", "pacmap")):
        try:
            places = neighbour_places(model.transform(X).astype(np.float64), np.zeros((1, 6)), method, 0)
        except ImportError:
            with refuses(ImportError, f"pip install {name}"):
                write_report(model, X, tmp_path / "r.html", map=method)
        else:
            assert places[0].shape == (300, 2)
    assert list(tmp_path.iterdir()) == [tmp_path / "none.html"]


def test_two_components_need_no_other_map(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 3))
    model = KernelEmbedding(2, n_landmarks=10, random_state=0).fit(X)
    page = content(write_report(model, X, tmp_path / "r.html"))
    assert [each["name"] for each in page["maps"]] == ["principal components"]
    assert unpacked(map_of(page, "principal")["rows"]).shape == (100,)


def test_groups_that_are_not_covered_are_named_with_numbers():
    coverage = np.r_[np.full(70, 0.9), np.full(30, 0.05)]
    city = ShownColumn("city", np.r_[np.zeros(60, int), np.ones(40, int)], ["Ulm", "Graz"])
    few = ShownColumn("job", np.r_[np.ones(90, int), np.zeros(10, int)], ["cook", "clerk"])
    none = NearestRows(np.zeros((100, 0), int), np.zeros((100, 0)), 0.0)
    assert not_for(coverage, [city, few], None, none) == [
        "Rows with city Graz: 75 % of its 40 rows are unlike every landmark (all rows: 30 %)."
    ]
    assert not_for(np.full(100, 0.9), [city], None, none) == []
    (everything,) = not_for(np.full(100, 0.05), [city], None, none)
    assert everything.startswith("Rows like these: 100 %")


def test_classes_that_are_not_separated_are_named_with_numbers():
    """a and b lie on each other, c lies alone."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 40)
    Z = rng.standard_normal((120, 2)) + np.where(codes == 2, 50, 0)[:, None]
    nearest = nearest_rows(Z)
    labels = ShownColumn("kind", codes, ["a", "b", "c"])
    found = not_for(np.ones(120), [labels], labels, nearest)
    own = (codes[nearest.rows] == codes[:, None]).mean(1)
    assert len(found) == 2
    for name, other, code in (("a", "b", 0), ("b", "a", 1)):
        (text,) = (line for line in found if line.startswith(f"Telling kind {name} from {other}"))
        assert f"{100 * own[codes == code].mean():.0f} % are {name} too (33 % by chance)" in text
    far = rng.standard_normal((120, 2)) + 50 * codes[:, None]
    assert not_for(np.ones(120), [labels], labels, nearest_rows(far)) == []
