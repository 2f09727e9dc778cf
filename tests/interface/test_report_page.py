"""The report in a real browser: it loads alone, shows what Python gives, and works by mouse and keyboard."""

from __future__ import annotations

import base64
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from headless_browser import chromium, require_browser
from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain import Concept, attribution, class_direction, top_attribution, top_influence
from krepes.preprocessing import TableEncoder
from krepes.report import write_report

SCRIPT = "<script>alert(1)</script>"
ENTER, ESCAPE, RIGHT, LEFT = "\ue007", "\ue00c", "\ue014", "\ue012"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    require_browser()
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
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


@pytest.fixture(scope="module")
def people(tmp_path_factory):
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


def test_pages_load_without_console_messages_and_without_requests(browser, digits, people, tmp_path):
    model, X, *_, page = digits
    bare = write_report(model, X, tmp_path / "bare.html", samples=False)
    for each in (page, people[2], bare):
        browser.open(each)
        assert ("holds real rows" in browser.text("#notice")) == (each != bare)
        assert selected(browser) >= 0
        browser.run("document.getElementById('theme').click()")
        assert browser.console() == []
        assert browser.requests() == []


def test_a_request_would_be_seen_and_is_forbidden(browser, digits, tmp_path):
    """The check above can fail: a request is seen, and the policy of the report stops one that is tried."""
    other = tmp_path / "other.html"
    other.write_text("<!doctype html><img src='http://127.0.0.1:9/x.png'>")
    browser.open(other)
    assert browser.requests() == ["http://127.0.0.1:9/x.png"]
    browser.open(digits[-1])
    browser.run("const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i)")
    assert any("Content Security Policy" in message for message in browser.console())


def test_a_click_on_a_point_shows_the_landmarks_that_python_gives(browser, digits):
    model, X, _, _, page = digits
    browser.open(page)
    expected = top_influence(model, X, 6)
    for row, x, y in isolated_rows(browser, 4):
        browser.click(x, y)
        assert selected(browser) == row
        found = values(browser, "#influences > li")
        assert [landmark for landmark, _ in found] == expected.landmarks[row].tolist()
        np.testing.assert_allclose([value for _, value in found], expected.values[row], rtol=1e-6)
        names = browser.run(
            "return [...document.querySelectorAll('#influences .name')].map(e => e.textContent)"
        )
        assert [int(re.search(r"\d+", name)[0]) for name in names] == expected.rows[row].tolist()


def test_contributions_on_the_page_add_up_along_every_direction(browser, digits):
    model, X, _, probe, page = digits
    browser.open(page)
    row = 123
    select(browser, row)
    options = browser.run(
        "return [...document.querySelectorAll('#direction option')].map(o => o.textContent)"
    )
    vectors = {f"component {j + 1}": j for j in range(3)}
    vectors |= {f"label: {c} against the others": class_direction(probe.classifier, c) for c in range(10)}
    assert set(vectors) | {"concept: round"} == set(options)
    for k, name in enumerate(options):
        choose(browser, "direction", k)
        *parts, (_, total) = values(browser, "#contributions > li")
        sizes = sum(abs(value) for _, value in parts)
        assert abs(sum(value for _, value in parts) - total) < 1e-5 * sizes
        if name in vectors:
            expected = top_attribution(model, X[row : row + 1], vectors[name], 6)
            assert [landmark for landmark, _ in parts[:6]] == expected.landmarks[0].tolist()
            np.testing.assert_allclose([value for _, value in parts[:6]], expected.values[0], rtol=1e-5)
            everything = attribution(model, X[row : row + 1], vectors[name])[0]
            others = everything.sum() - expected.values.sum()
            assert abs(parts[6][1] - others) < 1e-4 * np.abs(everything).sum()


def test_the_legend_filters_classes(browser, digits):
    y, page = digits[2], digits[-1]
    browser.open(page)
    assert browser.run("return krepesReport.seen()") == 400
    press = 'document.querySelector(`#legend [data-code="${arguments[0]}"]`).click()'
    browser.run(press, 3)
    assert browser.run("return krepesReport.seen()") == 400 - (y == 3).sum()
    pressed = browser.run(
        "return document.querySelector('#legend [data-code=\"3\"]').getAttribute('aria-pressed')"
    )
    assert pressed == "false"
    browser.run(press, 5)
    shown = 400 - (y == 3).sum() - (y == 5).sum()
    assert browser.run("return krepesReport.seen()") == shown
    assert f"{shown} of 400 rows" in browser.text("#status")
    browser.run(press, 3)
    assert browser.run("return krepesReport.seen()") == 400 - (y == 5).sum()
    all_, none = (f"[...document.querySelectorAll('#legend .all')][{k}].click()" for k in (0, 1))
    browser.run(none)
    assert browser.run("return krepesReport.seen()") == 0
    browser.run(all_)
    assert browser.run("return krepesReport.seen()") == 400


def test_a_hidden_row_cannot_be_clicked(browser, digits):
    y, page = digits[2], digits[-1]
    browser.open(page)
    browser.run("document.getElementById('show-landmarks').click()")  # the row may be one
    row, x, at = isolated_rows(browser, 1)[0]
    browser.run('document.querySelector(`#legend [data-code="${arguments[0]}"]`).click()', int(y[row]))
    before = browser.text("#sample h2")
    browser.click(x, at)
    assert browser.text("#sample h2") == before != f"Row {row}"


def test_texts_of_the_user_are_shown_as_text(browser, people):
    """A script in a label, level, name or title would open an alert, which fails every later command."""
    _, frame, page = people
    browser.open(page)
    assert browser.text("h1") == SCRIPT
    assert browser.driver.title == SCRIPT
    assert SCRIPT in browser.text("#legend")
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.run("return document.querySelectorAll('b').length") == 0
    row = int(np.flatnonzero(frame["job"].str.startswith("smith"))[0])
    select(browser, row)
    assert f"smith {SCRIPT}" in browser.text("#sample table")
    assert "<b>wage</b>" in browser.text("#sample table")
    browser.run(
        "const c = document.getElementById('colour'); c.value = 2; c.dispatchEvent(new Event('change'))"
    )
    assert browser.run("return document.querySelectorAll('script').length") == 2


def test_agreement_is_the_formula(browser, people):
    """mean over rows of the squared difference from the landmark, less that of the row, as the kernel sees columns."""
    model, frame, page = people
    browser.open(page)
    encoder = model.input_space_.encoder
    X, L = encoder.transform(frame).astype(np.float64), model.landmarks_.double().numpy()
    for row in (9, 20):  # row 9 has no age
        select(browser, row)
        landmark = values(browser, "#influences > li")[0][0]
        rows = "[...document.querySelectorAll('#sample tbody tr')]"
        cells = browser.run(
            f"return {rows}.map(r => [r.cells[0].textContent, r.querySelector('.amount').textContent])"
        )
        assert len(cells) == 3
        for (name, shown), group in zip(cells, encoder.groups_, strict=True):
            squares = ((X[:, group] - L[landmark, group]) ** 2).sum(1)
            expected = squares.mean() - squares[row]
            found = float(shown.replace("−", "-").replace(",", ""))
            assert abs(found - expected) < 0.006 * max(1, abs(expected)), name


def test_low_coverage_is_a_warning(browser, people):
    page = people[2]
    browser.open(page, hash="#row=7")
    assert selected(browser) == 7
    assert "This sample is unlike every landmark" in browser.text("#sample .warning")
    select(browser, 8)
    assert browser.run("return document.querySelector('#sample .warning')") is None


def test_the_keyboard_walks_enters_and_lets_go(browser, digits):
    browser.open(digits[-1])
    at = "return krepesReport.where(arguments[0])"
    select(browser, min(range(50), key=lambda row: browser.run(at, row)[0]))  # there are rows on its right
    browser.run("document.getElementById('map').focus()")
    first = selected(browser)
    browser.press(RIGHT)
    second = selected(browser)
    assert second != first
    assert browser.run(at, second)[0] > browser.run(at, first)[0]
    browser.press(LEFT)
    assert browser.run(at, selected(browser))[0] < browser.run(at, second)[0]
    browser.press("+")
    assert browser.run("return krepesReport.map.zoom") > 1
    browser.press("0")
    assert browser.run("return krepesReport.map.zoom") == 1
    browser.press(ENTER)
    assert browser.run("return document.activeElement.id") == "sample"
    browser.press(ESCAPE)
    assert browser.text("#sample h2") == "No row selected"
    assert browser.run("return document.activeElement.id") == "map"


def test_everything_that_can_be_used_has_a_name_and_a_visible_focus(browser, digits):
    browser.open(digits[-1])
    names = browser.run("""
      return [...document.querySelectorAll('button, select, input, canvas, [tabindex="0"]')].map(e =>
        e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent);
    """)
    assert len(names) > 30
    assert all(name.strip() for name in names)
    browser.press("\ue004")  # Tab, so that focus is shown
    browser.run("document.getElementById('map').focus()")
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_focus_stays_in_the_panel(browser, digits):
    """A button that fills the panel anew is there again, and has the focus."""
    browser.open(digits[-1])
    before = selected(browser)
    browser.run("document.querySelector('[aria-label=\"Next row\"]').focus()")
    browser.press(ENTER)
    assert selected(browser) == before + 1
    assert browser.run("return document.activeElement.getAttribute('aria-label')") == "Next row"
    browser.run("document.querySelector('#influences .landmark').focus()")
    browser.press(ENTER)
    assert browser.text("#sample h2").startswith("Landmark")
    assert browser.run("return document.activeElement.id") == "sample"


def test_a_row_is_explained_along_its_own_class_until_another_direction_is_chosen(browser, digits):
    y, page = digits[2], digits[-1]
    browser.open(page)
    along = "return document.getElementById('contributions').dataset.direction"
    for row in (3, 4):
        select(browser, row)
        assert browser.run(along) == f"label: {y[row]} against the others"
    choose(browser, "direction", 1)
    select(browser, 5)
    assert browser.run(along) == "component 2"


def test_rows_are_found_by_number_and_by_text(browser, people):
    _, frame, page = people
    browser.open(page)
    find = """document.getElementById('query').value = arguments[0];
      document.getElementById('search').requestSubmit(); return document.getElementById('status').textContent"""
    browser.run(find, "42")
    assert selected(browser) == 42
    cooks = np.flatnonzero(frame["job"] == "cook & co")
    assert f"1 of {len(cooks)} matches" in browser.run(find, "COOK")
    assert selected(browser) == cooks[0]
    assert f"2 of {len(cooks)} matches" in browser.run(find, "COOK")
    assert selected(browser) == cooks[1]
    assert "Nothing found" in browser.run(find, "pilot")


def test_zoom_landmarks_and_tooltip(browser, digits):
    browser.open(digits[-1])
    row, x, y = isolated_rows(browser, 1)[0]
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert f"row {row}" in browser.text("#tooltip")
    browser.wheel(x, y, -300)
    browser.run("document.getElementById('zoom-in').click()")
    assert browser.run("return krepesReport.map.zoom") > 2
    # The place under the pointer stays where it is while the wheel turns.
    browser.open(digits[-1])
    browser.wheel(x, y, -300)
    zoomed = in_window(browser, row)
    np.testing.assert_allclose(zoomed, [x, y], atol=2)
    assert browser.text("#show-landmarks") == "landmarks50"
    pixels = "const c = krepesReport.map; c.paint(); return c.canvas.toDataURL()"
    before = browser.run(pixels)
    browser.run("document.getElementById('show-landmarks').click()")
    assert (
        browser.run("return document.getElementById('show-landmarks').getAttribute('aria-pressed')")
        == "false"
    )
    assert browser.run(pixels) != before


def test_colours_of_numbers_maps_concepts_and_landmarks(browser, digits):
    model, X, *_, page = digits
    browser.open(page)
    choose(browser, "colour", 1)
    assert "coverage" in browser.text("#legend")
    colours = browser.run("return krepesReport.map.colours")
    assert len(set(colours)) > 50
    before = browser.run("return krepesReport.where(5)")
    choose(browser, "which", 1)
    assert "chosen with the labels" in browser.text("#axes")
    assert browser.run("return krepesReport.where(5)") != before
    assert "round" in browser.text("#concepts")
    browser.run("document.querySelector('#concepts .example').click()")
    assert browser.text("#sample .badge").strip() == "0"
    browser.run("document.querySelector('#influences .landmark').click()")
    assert "Landmark: row" in browser.text("#sample h2")
    rows = browser.run(
        "return [...document.querySelectorAll('#sample .example')].map(e => Number(e.dataset.row))"
    )
    landmark = browser.run("return krepesReport.map.landmark")
    top = top_influence(model, X, 6)
    score = np.where(top.landmarks == landmark, top.values, 0).max(1)
    assert rows[:3] == np.argsort(-score)[:3].tolist()
    assert browser.console() == []


def test_a_phone_a_dark_room_and_paper(browser, digits, people):
    for page in (digits[-1], people[2]):
        browser.open(page, width=390, height=844)
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        background = "return getComputedStyle(document.body).backgroundColor"
        light = browser.run(background)
        browser.open(page, dark=True)
        dark = browser.run(background)
        assert sum(map(int, re.findall(r"\d+", light))) > 700 > 150 > sum(map(int, re.findall(r"\d+", dark)))
        browser.run("document.getElementById('theme').click()")
        assert browser.run(background) == light
        paper = base64.b64decode(browser.command("Page.printToPDF", printBackground=True)["data"])
        assert paper.startswith(b"%PDF")
        assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 2
