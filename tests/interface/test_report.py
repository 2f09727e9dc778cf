"""The report as a file: what is in it, what is not, how large it is."""

from __future__ import annotations

import io
import re
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from krepes import KernelEmbedding, load
from krepes.evaluation import linear_probe, probe_protocol
from krepes.explain import (
    Concept,
    class_direction,
)
from krepes.explain.examples import examples, parts_along
from krepes.preprocessing import TableEncoder
from krepes.report import write_report
from krepes.report.thumbnails import BUDGET, thumbnails
from report_content import content, map_of, tops_of, unpacked

SCRIPT = "<script>alert(1)</script>"
write_quickly = partial(write_report, map="none")  # where the neighbour map is not what is tested


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    X, y = (data.images[:600] / 16).astype(np.float32), data.target[:600]
    model = KernelEmbedding(8, n_landmarks=60, random_state=0).fit(X)
    return model, X, y


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "job": rng.choice(["clerk", "smith", "cook"], n, p=[0.7, 0.2, 0.1]),
            "wage": rng.gamma(2.0, 1000.0, n),
            "secret": [f"person {i}" for i in range(n)],
            "rich": rng.choice(["no", "yes"], n),
        }
    )
    frame.loc[::7, "age"] = np.nan
    encoder = TableEncoder(label="rich")
    model = KernelEmbedding(6, n_landmarks=40, random_state=0, preprocess=encoder).fit(frame)
    return model, frame


def test_the_page_holds_what_explain_gives(digits, tmp_path):
    """Landmarks and values are those of `examples` and `parts_along`, in steps of the largest of a row."""
    model, X, y = digits
    page = content(write_report(model, X, tmp_path / "r.html", labels=y, n_top=5))
    made = examples(model, X, 5)
    pairs = [(page["headline"], made.shares)]
    pairs += [(page["directions"][j], parts_along(model, X, [j], 5)[0].parts) for j in range(3)]
    for part, expected in pairs:
        landmarks, values, half_step = tops_of(part)
        assert (landmarks == made.landmarks).all()
        assert (np.abs(values - expected) <= half_step).all()
    assert page["headline"]["title"] == "Made of these examples"


def test_a_kernel_without_a_norm_is_explained_the_same_way(digits, tmp_path):
    _, X, _ = digits
    flat = X[:200].reshape(200, -1)
    model = KernelEmbedding(4, kernel="sigmoid", loss="kernel_pca", n_landmarks=20, random_state=0).fit(flat)
    page = content(write_quickly(model, flat, tmp_path / "r.html", n_top=5))
    assert (tops_of(page["headline"])[0] == examples(model, flat, 5).landmarks).all()


def test_every_direction_adds_up(digits, tmp_path):
    """constant + all contributions = the value on the page, for components, concepts and classes."""
    model, X, y = digits
    round_ones = Concept(X[y == 0][:20], X[y != 0][:20], name="round", n_permutations=0, n_resamples=2).fit(
        model
    )
    probe = linear_probe(model.transform(X), y, model.transform(X), y)
    path = write_quickly(model, X, tmp_path / "r.html", labels=y, concepts=[round_ones], probe=probe)
    directions = content(path)["directions"]
    vectors = [0, 1, 2, round_ones, *(class_direction(probe.model, label) for label in range(10))]
    assert [d["kind"] for d in directions] == ["component"] * 3 + ["concept"] + ["class"] * 10
    for direction, vector in zip(directions, vectors, strict=True):
        (along,) = parts_along(model, X, [vector])
        totals, parts = unpacked(direction["totals"]), along.parts.sum(1) + along.unexplained
        np.testing.assert_allclose(direction["constant"] + parts, totals, atol=1e-4 * np.abs(totals).max())
    np.testing.assert_allclose(
        unpacked(directions[3]["totals"]), round_ones.scores(model.transform(X)), atol=1e-4
    )
    decided = probe.model.decision_function(model.transform(X))
    margin = decided[:, 4] - np.delete(decided, 4, axis=1).mean(1)
    np.testing.assert_allclose(unpacked(directions[8]["totals"]), margin, rtol=1e-4, atol=1e-3)


def test_two_classes_have_one_direction_which_is_the_probes_decision(digits, tmp_path):
    model, X, y = digits
    labels = np.where(y < 5, "few", "many")
    Z = model.transform(X)
    probe = linear_probe(Z, labels, Z, labels)
    page = content(write_quickly(model, X, tmp_path / "r.html", labels=labels, probe=probe))
    (direction,) = (d for d in page["directions"] if d["kind"] == "class")
    assert direction["name"] == "label: many against few"
    expected = probe.model.decision_function(Z)[:, 0]
    np.testing.assert_allclose(unpacked(direction["totals"]), expected, rtol=1e-4, atol=1e-3)


def test_coverage_and_map(digits, tmp_path):
    """The map has the distances of the first two principal components."""
    model, X, _ = digits
    page = content(write_report(model, X, tmp_path / "r.html"))
    np.testing.assert_allclose(unpacked(page["coverage"]), model.coverage(X), rtol=1e-6)
    Z = model.transform(X).astype(np.float64)
    Z -= Z.mean(0)
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    principal = map_of(page, "principal")
    found = unpacked(principal["rows"]).reshape(-1, 2)
    np.testing.assert_allclose(np.abs(found), np.abs(U[:, :2] * s[:2]), rtol=1e-3, atol=1e-4 * s[0])
    assert len(page["maps"]) == 2  # discriminants need labels
    landmarks = unpacked(principal["landmarks"]).reshape(-1, 2)
    np.testing.assert_allclose(landmarks, found[model.landmark_indices_], rtol=1e-3, atol=1e-3 * s[0])


def test_discriminants_tell_classes_apart_better_than_principal_components(digits, tmp_path):
    model, X, y = digits
    page = content(write_quickly(model, X, tmp_path / "r.html", labels=y))
    first, second = map_of(page, "principal"), map_of(page, "discriminants")

    def ratio(places):
        Z = unpacked(places["rows"]).reshape(-1, 2)
        within = sum(Z[y == c].var(0).sum() * (y == c).mean() for c in range(10))
        return Z.var(0).sum() / within

    assert ratio(second) > 1.2 * ratio(first)


def test_rows_of_a_table_are_decoded(people, tmp_path):
    model, frame = people
    page = content(write_quickly(model, frame, tmp_path / "r.html", labels=frame["rich"]))
    features = {feature["name"]: feature for feature in page["features"]}
    assert set(features) == {"age", "job", "wage"}  # not the label, not the near-unique text
    ages = unpacked(features["age"]["values"])
    np.testing.assert_allclose(ages, frame["age"], rtol=1e-5)  # missing ones are missing
    jobs = np.array(features["job"]["levels"])[unpacked(features["job"]["values"])]
    assert (jobs == frame["job"]).all()
    of_landmarks = np.array(features["job"]["levels"])[unpacked(features["job"]["of_landmarks"])]
    assert (of_landmarks == frame["job"].iloc[model.landmark_indices_]).all()
    assert features["age"]["pair"] is None
    assert page["labels"]["name"] == "rich"
    assert page["landmarks"]["rows_of_data"]
    labels = np.array(page["labels"]["levels"])[unpacked(page["landmarks"]["labels"])]
    assert (labels == frame["rich"].iloc[model.landmark_indices_]).all()


def test_yes_and_no_keep_their_words(people, tmp_path):
    frame = people[1][["age", "rich"]]
    model = KernelEmbedding(2, n_landmarks=10, random_state=0).fit(frame)
    features = content(write_quickly(model, frame, tmp_path / "r.html"))["features"]
    (rich,) = (feature for feature in features if feature["name"] == "rich")
    assert (np.array(rich["pair"])[1 - unpacked(rich["values"]).astype(int)] == frame["rich"]).all()


def test_rows_stand_beside_what_comes_back(people, digits, tmp_path):
    """Errors and values are those of `reconstruct`; the rebuilt images follow those of rows and landmarks."""
    for name, (model, X) in {"t": people[:2], "d": digits[:2]}.items():
        page = content(write_quickly(model, X, tmp_path / f"{name}.html"))
        rows, error = model.reconstruct(X, return_error=True)
        assert np.allclose(unpacked(page["rebuilt"]["actual"]), error.actual, rtol=1e-3)
        assert np.array_equal(unpacked(page["rebuilt"]["trusted"]) > 0, error.trusted)
        for feature in page["features"]:
            values = rows.column(feature["name"]).to_pylist()
            found = unpacked(feature["rebuilt"])
            if feature["levels"] is None:
                numbers = np.array(values, dtype=float)
                assert np.allclose(found, numbers, atol=0.01 * np.nanstd(numbers), equal_nan=True)
            else:
                assert [feature["levels"][code] for code in found] == [
                    "(missing)" if v is None else v for v in values
                ]
    assert content(write_quickly(*people[:2], tmp_path / "none.html", samples=False))["rebuilt"] is None


def test_landmarks_have_no_labels_where_they_are_not_rows_of_the_data(people, tmp_path):
    model, frame = people
    page = content(write_quickly(model, frame.iloc[::-1], tmp_path / "r.html", labels=frame["rich"]))
    assert not page["landmarks"]["rows_of_data"]
    assert page["landmarks"]["labels"] is None


def test_files_give_the_page_of_their_rows(people, tmp_path):
    """Also where only a sample of the rows is shown."""
    model, frame = people
    frame.to_parquet(tmp_path / "people.parquet")
    frame.to_csv(tmp_path / "people.csv", index=False)
    arguments = {"labels": {"rich": frame["rich"].to_numpy()}, "columns": ["wage"], "max_rows": 150}
    expected = content(write_quickly(model, frame, tmp_path / "frame.html", **arguments))
    assert expected["labels"]["name"] == "rich"
    for name in ("people.parquet", "people.csv"):
        found = content(write_quickly(model, tmp_path / name, tmp_path / f"{name}.html", **arguments))
        assert {key for key in expected if found[key] != expected[key]} <= {"card"}, name  # which says "CSV"


def test_columns_by_name_and_by_value(people, tmp_path):
    model, frame = people
    named = content(write_quickly(model, frame, tmp_path / "a.html", columns=["secret", "rich", "wage"]))[
        "columns"
    ]
    assert [column["name"] for column in named] == ["secret", "rich", "wage"]
    assert len(named[0]["levels"]) == 40
    assert named[0]["levels"][-1] == "(361 others)"
    assert named[1]["levels"] == ["no", "yes"]
    np.testing.assert_allclose(unpacked(named[2]["values"]), frame["wage"], rtol=1e-6)
    given = {"year": np.arange(400) % 3 + 2000, "share": np.linspace(0, 1, 400), "flag": np.arange(400) > 7}
    year, share, flag = content(write_quickly(model, frame, tmp_path / "b.html", columns=given))["columns"]
    assert year["levels"] == ["2000", "2001", "2002"]
    assert share["levels"] is None
    assert flag["levels"] == ["False", "True"]


def test_without_samples_no_row_is_in_the_file(people, tmp_path):
    """No value, no level, no column name: only what is computed from rows."""
    model, frame = people
    full = write_quickly(model, frame, tmp_path / "full.html")
    bare = write_quickly(model, frame, tmp_path / "bare.html", samples=False)
    assert "smith" in full.read_text()
    assert "wage" in full.read_text()
    text = bare.read_text()
    assert not any(word in text for word in ("smith", "clerk", "wage", "person"))
    page = content(bare)
    assert page["features"] == []
    assert page["images"] is None
    assert page["texts"] is None
    assert page["columns"] == []
    assert len(unpacked(page["coverage"])) == 400
    assert "labels" not in page["notice"]


def test_without_samples_the_page_says_what_it_still_holds(people, tmp_path):
    model, frame = people
    labels = pd.Series(np.arange(400) % 2, name="grade")
    page = content(write_quickly(model, frame, tmp_path / "r.html", labels=labels, samples=False))
    for part in (
        "without the rows themselves",
        "numbers of the rows",
        "places on the maps",
        "coverage",
        "labels (grade)",
    ):
        assert part in page["notice"]


def test_a_page_speaks_to_readers_who_never_saw_a_terminal(people, tmp_path):
    """U13: pages of others named options such as --no-samples."""
    model, frame = people
    for samples in (True, False):
        page = write_quickly(
            model, frame, tmp_path / f"{samples}.html", labels=frame["rich"], samples=samples
        )
        visible = re.sub(r"<style.*?</style>", "", page.read_text(), flags=re.DOTALL)
        assert re.findall(r"[\s\"'>(]--[a-z]+(?:-[a-z]+)+", visible) == []


def test_without_samples_no_image_is_in_the_file(digits, tmp_path):
    model, X, y = digits
    text = write_quickly(model, X, tmp_path / "r.html", labels=y, samples=False).read_text()
    assert "data:image" not in text


def test_texts_are_escaped(people, tmp_path):
    """Whatever a label, level, name or title is, it cannot leave the place where it stands."""
    model, frame = people
    hostile = f"</title>{SCRIPT}<!--{{{{script}}}}\u2028\ud800'\""
    labels = np.where(np.arange(400) % 2, SCRIPT, "</script><img src=x onerror=alert(1)>")
    concept = Concept(frame.iloc[:10], frame.iloc[10:30], name=SCRIPT, n_permutations=0, n_resamples=2).fit(
        model
    )
    path = write_quickly(
        model,
        frame,
        tmp_path / "r.html",
        labels=labels,
        columns={SCRIPT: labels},
        concepts=[concept],
        title=hostile,
        facts={SCRIPT: SCRIPT},
    )
    text = path.read_text(encoding="utf-8")
    assert SCRIPT not in text
    assert "<img src=x" not in text
    assert text.count("</script>") == text.count("<script") == 2
    page = content(path)
    assert set(page["labels"]["levels"]) == set(labels)
    assert page["title"] == hostile
    assert page["columns"][0]["name"] == SCRIPT


def test_more_rows_than_shown_are_sampled(digits, tmp_path):
    model, X, y = digits
    path = write_report(model, X, tmp_path / "r.html", labels=y, max_rows=100)
    page = content(path)
    rows = unpacked(page["rows"]).astype(int)
    assert len(rows) == 100 == len(set(rows))
    assert page["n_total"] == 600
    assert ["Rows shown", "100 of 600, a random sample"] in page["card"]
    assert (unpacked(page["labels"]["values"]) == y[rows]).all()
    np.testing.assert_allclose(unpacked(page["coverage"]), model.coverage(X[rows]), rtol=1e-5)
    again = write_report(model, X, tmp_path / "again.html", labels=y, max_rows=100)
    assert again.read_bytes() == path.read_bytes()
    other = content(write_report(model, X, tmp_path / "o.html", max_rows=100, random_state=1))
    assert set(unpacked(other["rows"])) != set(rows)


def test_thumbnails_are_the_images(digits, tmp_path):
    model, X, _ = digits
    images = content(write_quickly(model, X, tmp_path / "r.html"))["images"]
    assert (images["width"], images["height"]) == (8, 8)
    tile = _tile(images, 37)
    assert np.abs(tile.astype(float) / 255 - X[37]).max() < 0.01
    landmark = _tile(images, 600 + 5)
    assert np.abs(landmark / 255 - X[model.landmark_indices_[5]]).max() < 0.01


def test_the_first_row_is_not_a_landmark_and_the_card_is_complete(digits, tmp_path):
    model, X, y = digits
    page = content(write_quickly(model, X, tmp_path / "r.html", labels=y, facts={"Time to fit": "3.1 s"}))
    assert page["first"] not in model.landmark_indices_
    card = dict(page["card"])
    for name in ("Data", "Kernel", "Loss", "Landmarks", "Rank of the features", "Effective rank", "Linear probe",
                 "Coverage", "Versions", "Time to fit"):  # fmt: skip
        assert card[name], name
    assert "480 of the rows shown and tested on the other 120" in card["Linear probe"]
    assert all(a >= b for a, b in pairwise(page["spectrum"]))


def test_a_given_protocol_is_shown(digits, tmp_path):
    model, X, y = digits
    result = probe_protocol(model.transform(X), y, label_fraction=0.5, n_repeats=2)
    page = content(write_quickly(model, X, tmp_path / "r.html", labels=y, probe=result))
    assert "2 repeats" in dict(page["card"])["Linear probe"]
    assert sum(d["kind"] == "class" for d in page["directions"]) == 10


def test_vectors_objects_and_paths(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 120))
    X[:, 3] *= 9
    model = KernelEmbedding(1, n_landmarks=20, random_state=0, dtype="float64").fit(X)
    page = content(write_quickly(model, X, tmp_path / "vectors.html"))
    assert len(page["features"]) == 100  # of 120, and those that vary most
    assert "x3" in [feature["name"] for feature in page["features"]]
    assert any("100 of 120 columns" in note for note in page["notes"])
    np.save(tmp_path / "X.npy", X)
    by_path = content(write_quickly(model, tmp_path / "X.npy", tmp_path / "path.html"))
    assert by_path["coverage"] == page["coverage"]

    words = [f"{'ab' * (i % 7)}{i % 11}" for i in range(40)]

    def overlap(A, B):
        return torch.tensor([[1.0 + len(set(a) & set(b)) for b in B] for a in A])

    of_words = KernelEmbedding(2, kernel=overlap, loss="kernel_pca", n_landmarks=5, random_state=0).fit(words)
    texts = content(write_quickly(of_words, words, tmp_path / "words.html"))["texts"]
    assert texts["rows"] == words
    assert texts["landmarks"] == [words[i] for i in of_words.landmark_indices_]


def test_a_loaded_model_and_an_image_folder(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(24):
        folder = tmp_path / "images" / ("dark" if i % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 120, (100, 150, 3)) + (0 if i % 2 else 120)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02}.png")
    model = KernelEmbedding(2, n_landmarks=8, random_state=0).fit(tmp_path / "images")
    model.save(tmp_path / "m.krepes")
    path = write_quickly(load(tmp_path / "m.krepes"), tmp_path / "images", tmp_path / "r.html")
    images = content(path)["images"]
    assert (images["width"], images["height"]) == (64, 43)
    light = _tile(images, 20).mean()  # files in the order of their paths: dark first
    assert light - _tile(images, 3).mean() > 60


def test_several_views_of_a_landmark_count_once(digits, tmp_path):
    from krepes.landmarks import Uniform

    _, X, _ = digits
    model = KernelEmbedding(3, landmarks=Uniform(views_per_landmark=2), n_landmarks=15, random_state=0).fit(X)
    page = content(write_quickly(model, X, tmp_path / "r.html", n_top=30))
    assert page["headline"]["n_top"] == 15
    assert len(unpacked(page["landmarks"]["norms"])) == 15


def test_five_thousand_table_rows_stay_below_ten_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 110))
    labels = rng.integers(0, 30, 5000)
    model = KernelEmbedding(8, n_landmarks=50, loss="kernel_pca", random_state=0).fit(X[:500])
    given = {f"column {j}": rng.standard_normal(5000) for j in range(5)}
    path = write_quickly(model, X, tmp_path / "r.html", labels=labels, columns=given)
    assert 5e6 < path.stat().st_size < 10e6
    assert any("classes have no direction" in note for note in content(path)["notes"])


@pytest.mark.full
def test_five_thousand_images_stay_below_ten_megabytes(tmp_path):
    """Noise is the hardest image to compress."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (5000, 32, 32, 3), dtype=np.uint8)
    model = KernelEmbedding(4, n_landmarks=50, loss="kernel_pca", random_state=0).fit(X[:200])
    path = write_quickly(model, X, tmp_path / "r.html", labels=rng.integers(0, 10, 5000))
    assert 3e6 < path.stat().st_size < 10e6


def test_larger_images_have_smaller_thumbnails_where_they_must():
    """5,000 rows and 1,000 landmarks of noise: within the budget that leaves room for the rest of the page."""
    noise = np.random.default_rng(0).integers(0, 256, (1000, 64, 64, 3), dtype=np.uint8)
    found = thumbnails([noise] * 5, noise)
    assert found.width < 64
    assert 3e6 < sum(map(len, found.sheets)) < BUDGET * 4 / 3 + 1000
    few = thumbnails([noise[:50]], noise[:10])
    assert (few.width, few.sheets[0][:15]) == (64, "data:image/png;")


def _tile(images, index):
    import base64

    sheet = images["sheets"][index // images["per_sheet"]]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet.split(",")[1]))))
    k = index % images["per_sheet"]
    top, left = k // images["per_row"] * images["pitch_y"], k % images["per_row"] * images["pitch_x"]
    return pixels[top : top + images["height"], left : left + images["width"]]
