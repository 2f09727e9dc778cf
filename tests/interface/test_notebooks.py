"""What models, results and pages show in a notebook: short, escaped, and the page in a frame of its own."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone

from command_line import run, words
from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain import Concept, class_coverage, concept_profile, explain
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.report import write_machine_page, write_report
from krepes.report.page import WrittenReport
from refusals import refuses
from report_content import content

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).standard_normal((60, 3))
    return KernelEmbedding(2, n_landmarks=10, random_state=0).fit(X), X


def test_models_show_what_they_have_learned(fitted):
    model, X = fitted
    shown = model._repr_mimebundle_()
    assert shown["text/plain"] == "KernelEmbedding(n_components=2, n_landmarks=10, random_state=0)"
    for part in ("rows seen", "60", "10, rank 10", "sk-container"):
        assert part in shown["text/html"]
    assert model._repr_html_() == shown["text/html"] or "sk-container" in model._repr_html_()
    assert "not fitted" in clone(model)._repr_html_()
    with config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]
    given = KernelEmbedding(2, landmarks=X[:20], random_state=0)
    assert repr(given) == "KernelEmbedding(landmarks=float64 (20, 3), n_components=2, random_state=0)"


def test_results_are_short_and_escaped(fitted):
    model, X = fitted
    y = np.arange(60) % 2
    concept = Concept(X[:10], X[10:20], name=SCRIPT, n_permutations=0, n_resamples=2).fit(model)
    probe = linear_probe(model.transform(X), y, model.transform(X), y)
    coverage = class_coverage(model, y[model.landmark_indices_], of_landmarks=True)
    for result in (concept, explain(model, X), concept_profile(model, X, concept), coverage, probe):
        text, page = repr(result), result._repr_html_()
        assert len(text) < 700
        assert "\n" not in text
        assert text.startswith(type(result).__name__)
        assert "<script" not in page
        assert result._repr_mimebundle_()["text/html"] == page
    assert SCRIPT in repr(concept)
    assert html.escape(SCRIPT) in concept._repr_html_()
    assert "array(" not in repr(concept)
    assert repr(Concept(X[:10], X[10:20])) == "Concept(name='concept')"


def test_a_written_page_is_a_path_and_shows_itself(fitted, tmp_path):
    model, X = fitted
    written = write_report(model, X, tmp_path / "r.html", title=f'"{SCRIPT}', map="none")
    assert isinstance(written, WrittenReport)
    assert written == tmp_path / "r.html"
    frame = written._repr_html_()
    assert frame.startswith("<iframe")
    assert 'sandbox="allow-scripts' in frame
    assert "allow-same-origin" not in frame
    inner = re.fullmatch(r'<iframe [^>]* srcdoc="([^"]*)"></iframe>', frame)[1]
    assert html.unescape(inner) == written.read_text(encoding="utf-8")
    assert "<script" not in frame
    assert written.parent._repr_html_().startswith("<code>")


def test_a_page_in_a_notebook_works(browser, fitted, tmp_path):
    model, X = fitted
    written = write_report(model, X, tmp_path / "r.html", title="In a frame", map="none")
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8><body>{written._repr_html_()}", encoding="utf-8")
    browser.open(notebook)
    browser.driver.switch_to.frame(0)
    try:
        assert browser.text("h1") == "In a frame"
        assert browser.text("#sample h2").startswith("Row ")
    finally:
        browser.driver.switch_to.default_content()
    assert browser.requests() == []


@pytest.fixture(scope="module")
def wages():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 80, 120).astype(float), "job": rng.choice(["cook", SCRIPT], 120)}
    )
    frame["wage"] = 30 * frame["age"] + rng.normal(0, 200, 120)
    frame["rich"] = np.where(frame["wage"] > 1400, "yes", "no")
    return frame


SETTINGS = {"n_landmarks": 20, "random_state": 0, "kernel": "gaussian"}


def cells(path):
    """The rows of the table of rows, as {head: text}."""
    table = path.read_text().split('aria-label="Rows">')[1].split("</table>")[0]
    heads = [html.unescape(head) for head in re.findall(r'<th scope="col">(.*?)</th>', table)]
    lines = re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>")[1])
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]
    return [dict(zip(heads, map(html.unescape, line))) for line in found]


def test_the_page_of_a_regression_has_predictions_and_intervals(wages, tmp_path):
    rows = wages.drop(columns="rich")
    for machine in (KernelRidgeRegressor(**SETTINGS), GaussianProcessRegressor(**SETTINGS)):
        machine.fit(rows, "wage")
        path = write_machine_page(machine, rows, tmp_path / f"{type(machine).__name__}.html")
        found = cells(path)
        assert len(found) == 120
        expected, ends = machine.predict(rows), machine.predict_interval(rows, confidence=0.9)
        widths = []
        for line in found:
            row = int(line["row"])
            assert line["prediction"] == f"{expected[row]:.4g}"
            assert line["interval (90 %)"] == f"{ends[row, 0]:.4g} to {ends[row, 1]:.4g}"
            assert line["wage"] == f"{wages['wage'][row]:.4g}"
            widths.append(ends[row, 1] - ends[row, 0])
        assert widths == sorted(widths, reverse=True)
        assert SCRIPT not in path.read_text()
    far = np.abs(wages["age"] - wages["age"].mean()) > wages["age"].std()  # the wage was made from the age
    for line in cells(tmp_path / "KernelRidgeRegressor.html"):
        if far[int(line["row"])]:
            assert line["depends most on"].startswith("age")


def test_the_page_of_a_classifier_has_probabilities(wages, tmp_path):
    rows = wages.drop(columns="wage")
    for machine in (KernelRidgeClassifier(**SETTINGS), GaussianProcessClassifier(**SETTINGS)):
        machine.fit(rows, "rich")
        path = write_machine_page(machine, rows, tmp_path / f"{type(machine).__name__}.html")
        P, predicted = machine.predict_proba(rows), machine.predict(rows)
        for line in cells(path):
            row = int(line["row"])
            assert line["prediction"] == predicted[row]
            assert line["probability"] == f"{100 * P[row].max():.1f} %"
    bare = write_machine_page(machine, rows, tmp_path / "bare.html", samples=False)
    assert set(cells(bare)[0]) == {"row", "prediction", "probability", "coverage"}


def test_the_page_of_a_detector_has_p_values(wages, tmp_path):
    rows = wages.drop(columns="rich")
    machine = NoveltyDetector(n_landmarks=20, random_state=0).fit(rows)
    odd = rows.copy()
    odd.loc[5, ["age", "wage"]] = [900.0, 9e5]
    found = cells(write_machine_page(machine, odd, tmp_path / "d.html"))
    p_values = machine.p_values(odd)
    assert found[0]["row"] == "5"
    assert found[0]["alarm"] == "yes"
    assert "wage" in found[0]["deviates in"]
    assert [line["p-value"] for line in found] == [f"{p_values[int(line['row'])]:.3g}" for line in found]
    assert sorted(p_values) == [p_values[int(line["row"])] for line in found]
    with refuses(TypeError, "NoveltyDetector"):
        write_machine_page(KernelEmbedding().fit(rows), rows, tmp_path / "e.html")


def test_pages_of_machines_load_alone_and_fit_a_phone(browser, wages, tmp_path):
    rows = wages.drop(columns="rich")
    machine = KernelRidgeRegressor(**SETTINGS).fit(rows, "wage")
    path = write_machine_page(machine, rows, tmp_path / "m.html", title=SCRIPT)
    for dark in (False, True):
        browser.open(path, width=390, height=844, dark=dark)
        assert browser.text("h1") == SCRIPT
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        assert browser.run("return document.querySelectorAll('script').length") == 0
        unnamed = [
            n for n in browser.nodes() if n["focusable"] and not n["name"] and n["role"] != "RootWebArea"
        ]
        assert unnamed == []
    assert browser.console() == []
    assert browser.requests() == []


def test_the_command_line_writes_pages_of_every_machine(wages, tmp_path):
    rows = wages.drop(columns="rich")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    machines = {
        "process": GaussianProcessRegressor(**SETTINGS).fit(rows, "wage"),
        "detector": NoveltyDetector(n_landmarks=20, random_state=0).fit(rows),
    }
    for name, machine in machines.items():
        machine.save(tmp_path / f"{name}.krepes")
        files = tmp_path / f"{name}.krepes", tmp_path / "rows.csv"
        run("explain", *files, "-o", tmp_path / f"{name}.html", "--title", SCRIPT)
        assert len(cells(tmp_path / f"{name}.html")) == 120
        assert SCRIPT not in (tmp_path / f"{name}.html").read_text()
        assert "--force" in words(run("explain", *files, "-o", tmp_path / f"{name}.html", code=1))
        assert "row " in run("explain", *files, "--sample", 3)


def test_pages_speak_of_their_author_and_not_of_options(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "m.krepes")
    np.save(tmp_path / "X.npy", X)
    run("explain", tmp_path / "m.krepes", tmp_path / "X.npy", "-o", tmp_path / "r.html", "--map", "none")
    in_python = write_report(model, X, tmp_path / "p.html", map=None)
    for page in (content(tmp_path / "r.html"), content(in_python)):
        assert "written with real rows" in page["notice"]
        assert "--" not in page["notice"]
        assert "samples=" not in page["notice"]
    bare = content(write_report(model, X, tmp_path / "b.html", map=None, samples=False))
    assert "written without the rows themselves" in bare["notice"]
