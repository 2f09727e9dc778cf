"""`krepes explain` in the terminal."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from krepes import KernelEmbedding
from krepes.cli.app import app
from krepes.explain import Concept
from krepes.explain.examples import cancels, examples, parts_along

runner = CliRunner()


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A model of iris without its last ten rows, its training table, and a table of everything."""
    folder = tmp_path_factory.mktemp("flowers")
    data = load_iris(as_frame=True)
    frame = data.data.assign(kind=data.target_names[data.target])
    train = frame.sample(140, random_state=0).reset_index(drop=True)
    train.to_parquet(folder / "train.parquet")
    frame.iloc[45:55].to_parquet(folder / "new.parquet")
    frame[frame.kind == "setosa"].to_csv(folder / "setosa.csv", index=False)
    model = KernelEmbedding(4, n_landmarks=30, random_state=0).fit(train.drop(columns="kind"))
    model.save(folder / "iris.krepes")
    return folder, model, train


def explained(folder, data, *arguments):
    return runner.invoke(app, ["explain", str(folder / "iris.krepes"), str(folder / data), *arguments])


def test_the_landmarks_that_a_row_is_made_of(flowers):
    folder, model, train = flowers
    result = explained(folder, "train.parquet", "--label", "kind", "--sample", "7", "--top", "3")
    assert result.exit_code == 0, result.output
    found = examples(model, train.drop(columns="kind").iloc[[7]], 3)
    for index, share in zip(found.rows[0], found.shares[0]):
        line = next(
            text for text in result.output.splitlines() if f" row {index:,}, {train.kind[index]} " in text
        )
        assert f"{share:.0%}" in line
    assert re.search(rf"unexplained\s+{found.unexplained[0]:.0%}", result.output)
    assert f"Row 7, {train.kind[7]}: the landmarks span" in result.output


def test_labels_of_landmarks_are_shown_for_the_training_data_only(flowers):
    folder, _, _ = flowers
    result = explained(folder, "new.parquet", "--label", "kind", "--sample", "0")
    assert result.exit_code == 0, result.output
    assert not re.search(r"row \d+, [a-z]", result.output)


@pytest.mark.parametrize("against", [None, 12])
def test_parts_sum_to_the_component(flowers, against):
    folder, model, train = flowers
    extra = [] if against is None else ["--against", str(against)]
    result = explained(folder, "train.parquet", "--sample", "7", "--component", "1", *extra)
    assert result.exit_code == 0, result.output
    Z = model.transform(train.drop(columns="kind"))
    expected = Z[7, 1] - (0 if against is None else Z[against, 1])
    shown = float(re.search(r"sum\s+([-+][\d.e-]+)", result.output)[1])
    assert shown == pytest.approx(expected, rel=1e-2, abs=1e-4)
    (along,) = parts_along(model, train.drop(columns="kind").iloc[[7]], [1])
    assert all(f"{part:+.4g}" in result.output for part in along.parts[0])


def test_classes_and_concepts(flowers):
    folder, _, _ = flowers
    result = explained(
        folder, "train.parquet", "--label", "kind", "--sample", "7", "--class", "setosa",
        "--concept", f"small={folder / 'setosa.csv'}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Along setosa against the other classes" in result.output
    assert "Concept small:" in result.output


def test_a_page_is_written_and_not_overwritten(flowers):
    folder, _, _ = flowers
    page = folder / "report.html"
    arguments = ["--label", "kind", "-o", str(page), "--title", "Flowers"]
    first = explained(folder, "train.parquet", *arguments)
    assert first.exit_code == 0, first.output
    assert "shows real rows" in " ".join(first.output.split())
    text = page.read_text()
    assert "Flowers" in text
    assert "setosa" in text
    again = explained(folder, "train.parquet", *arguments)
    assert again.exit_code == 1
    assert "--force" in again.output
    without = explained(folder, "train.parquet", *arguments, "--force", "--no-samples")
    assert "holds no row" in " ".join(without.output.split())


def test_a_row_unlike_everything(flowers):
    folder, _, train = flowers
    strange = train.iloc[:1].assign(**{name: 1e3 for name in train.columns if name != "kind"})
    strange.to_parquet(folder / "strange.parquet")
    result = explained(folder, "strange.parquet", "--sample", "0")
    assert "unlike every landmark" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give --sample ROW"),
        (["--sample", "7", "--component", "1", "--class", "x"], "only one of --component and --class"),
        (["--sample", "7", "--against", "3"], "--against explains a difference"),
        (["--sample", "700"], "There is no row 700"),
        (["--sample", "7", "--component", "9"], "components 0 to 3"),
        (["--sample", "7", "--class", "rose", "--label", "kind"], "'rose' is not a class"),
        (["--sample", "7", "--concept", "sea"], "expected NAME=FILE"),
        (["--sample", "7", "--concept", "sea > 3"], "must be a column"),
        (["--sample", "7", "--label", "colour"], "colour"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_refusals(flowers, arguments, message):
    result = explained(flowers[0], "train.parquet", *arguments)
    assert result.exit_code != 0
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_concept_by_a_rule(flowers):
    """The parts, from the mean of the concept's negatives, sum to the row's score."""
    folder, model, train = flowers
    rule = f"{train.columns[0]} > 6"
    result = explained(folder, "train.parquet", "--sample", "7", "--concept", rule)
    assert result.exit_code == 0, result.output
    assert f"Concept {rule}:" in result.output
    concept = Concept.from_rule(train, rule, random_state=0).fit(model)
    expected = concept.scores(model.transform(train.drop(columns="kind").iloc[[7]]))[0]
    parts = result.output.split("Along the concept")[1]
    assert float(re.search(r"sum\s+([-+][\d.e-]+)", parts)[1]) == pytest.approx(expected, rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("labels", [[], ["--label", "kind"]], ids=["without labels", "with labels"])
def test_explanations_are_checked(flowers, labels):
    folder, _, _ = flowers
    result = explained(folder, "train.parquet", "--check", *labels)
    assert result.exit_code == 0, result.output
    for method in ("explain", "attribution", "kernel value", "random"):
        assert f" {method} " in result.output
    assert ("accuracy" in result.output) == bool(labels)


def test_parts_that_cancel_are_named(flowers):
    """A line says so where parts of either sign are more than twice their sum."""
    folder, model, train = flowers
    rows = train.drop(columns="kind")
    (along,) = parts_along(model, rows, [1])
    cancel = [cancels(np.append(parts, rest)) for parts, rest in zip(along.parts, along.unexplained)]
    for row in (cancel.index(True), cancel.index(False)):
        text = explained(folder, "train.parquet", "--sample", str(row), "--component", "1").output
        assert ("parts below cancel" in " ".join(text.split())) == cancel[row]
