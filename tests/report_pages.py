"""Pages of reports that several browser tests open, built once, and what a reader does on them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from headless_browser import chromium, require_browser
from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain import Concept
from krepes.preprocessing import TableEncoder
from krepes.report import write_report

SCRIPT = "<script>alert(1)</script>"
ENTER, ESCAPE, TAB, RIGHT, LEFT = "\ue007", "\ue00c", "\ue004", "\ue014", "\ue012"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    require_browser()
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="session")
def digits_page(tmp_path_factory):
    """(model, rows, labels, probe, page) of images with labels and a concept."""
    data = load_digits()
    X, y = (data.images[:400] / 16).astype(np.float32), data.target[:400]
    model = KernelEmbedding(8, n_landmarks=50, random_state=0).fit(X)
    Z = model.transform(X)
    probe = linear_probe(Z, y, Z, y)
    concept = Concept(X[y == 0][:20], X[y != 0][:30], name="round", n_permutations=9, n_resamples=2).fit(
        model
    )
    page = tmp_path_factory.mktemp("digits") / "report.html"
    write_report(model, X, page, labels=y, probe=probe, concepts=[concept], title="Digits", n_top=6)
    return model, X, y, probe, page


@pytest.fixture(scope="session")
def people_page(tmp_path_factory):
    """(model, frame, page) of a table whose texts are hostile."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 200).astype(float),
            "job": rng.choice(["clerk", f"smith {SCRIPT}", "cook & co"], 200, p=[0.6, 0.3, 0.1]),
            "<b>wage</b>": rng.gamma(2.0, 1000.0, 200),
            "rich": rng.choice([SCRIPT, "no"], 200),
        }
    )
    frame.loc[::9, "age"] = np.nan
    encoder = TableEncoder(label="rich")
    model = KernelEmbedding(5, n_landmarks=30, random_state=0, preprocess=encoder).fit(frame)
    frame.loc[7, ["age", "<b>wage</b>"]] = [900.0, 9e5]  # unlike everything
    page = tmp_path_factory.mktemp("people") / "report.html"
    write_report(model, frame, page, labels=frame["rich"], title=SCRIPT, columns={SCRIPT: frame["rich"]})
    return model, frame, page


def values(browser, selector):
    """[(landmark, value)] of the lines of a list."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].map(e => [e.dataset.landmark, e.dataset.value])"
    )
    return [
        (None if place is None else int(place), float(value))
        for place, value in browser.run(script, selector)
    ]


def selected(browser):
    return int(re.fullmatch(r"Row (\d+)", browser.text("#sample h2"))[1])


def select(browser, row):
    browser.run("krepesReport.select(arguments[0])", row)


def choose(browser, name, value):
    """Another option of a select element."""
    script = "const c = document.getElementById(arguments[0]); c.value = arguments[1]; "
    browser.run(script + "c.dispatchEvent(new Event('change'))", name, value)


def in_window(browser, row):
    """Where a row is in the window."""
    script = (
        "const b = krepesReport.map.canvas.getBoundingClientRect(), p = krepesReport.where(arguments[0]); "
    )
    return browser.run(script + "return [b.left + p[0], b.top + p[1]]", row)


def isolated_rows(browser, n):
    """Rows with no other row or landmark near them on the map, and where they are in the window."""
    script = """
      const map = krepesReport.map, box = map.canvas.getBoundingClientRect();
      const all = (places) => Array.from({length: places.length / 2}, (_, i) => map.at(places, i));
      const rows = all(map.places.rows), others = [...rows, ...all(map.places.landmarks)];
      const gap = ([x, y]) => others.map(([a, b]) => Math.hypot(a - x, b - y)).filter(d => d > 0.5)
        .reduce((a, b) => Math.min(a, b));
      return rows.map((p, i) => [gap(p), i, box.left + p[0], box.top + p[1]]).sort((a, b) => b[0] - a[0]);
    """
    return [(row, x, y) for _, row, x, y in browser.run(script)[:n]]
