"""The report in a real browser: it loads alone, shows what Python gives, and works by mouse and keyboard."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

from krepes.explain import class_direction
from krepes.explain.examples import examples, parts_along
from krepes.report import write_report
from report_pages import (
    ENTER,
    ESCAPE,
    LEFT,
    RIGHT,
    SCRIPT,
    choose,
    in_window,
    isolated_rows,
    select,
    selected,
    values,
)


def test_pages_load_without_console_messages_and_without_requests(
    browser, digits_page, people_page, tmp_path
):
    model, X, *_, page = digits_page
    bare = write_report(model, X, tmp_path / "bare.html", samples=False)
    for each in (page, people_page[2], bare):
        browser.open(each)
        assert ("written with real rows" in browser.text("#notice")) == (each != bare)
        assert selected(browser) >= 0
        browser.run("document.getElementById('theme').click()")
        assert browser.console() == []
        assert browser.requests() == []


def test_a_request_would_be_seen_and_is_forbidden(browser, digits_page, tmp_path):
    """The check above can fail: a request is seen, and the policy of the report stops one that is tried."""
    other = tmp_path / "other.html"
    other.write_text("<!doctype html><img src='http://127.0.0.1:9/x.png'>")
    browser.open(other)
    assert browser.requests() == ["http://127.0.0.1:9/x.png"]
    browser.open(digits_page[-1])
    browser.run("const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i)")
    assert any("Content Security Policy" in message for message in browser.console())


def test_a_click_on_a_point_shows_the_landmarks_that_python_gives(browser, digits_page):
    model, X, _, _, page = digits_page
    browser.open(page)
    expected = examples(model, X, 6)
    for row, x, y in isolated_rows(browser, 4):
        browser.click(x, y)
        assert selected(browser) == row
        *found, (_, rest) = values(browser, "#headline > li")
        assert rest == pytest.approx(expected.unexplained[row], abs=1e-3)
        assert [landmark for landmark, _ in found] == expected.landmarks[row].tolist()
        step = expected.shares[row].max() / 32767
        np.testing.assert_allclose([value for _, value in found], expected.shares[row], atol=0.51 * step)
        names = browser.run(
            "return [...document.querySelectorAll('#headline [data-landmark] .name')].map(e => e.textContent)"
        )
        assert [int(re.search(r"\d+", name)[0]) for name in names] == expected.rows[row].tolist()


def test_contributions_on_the_page_add_up_along_every_direction(browser, digits_page):
    model, X, _, probe, page = digits_page
    browser.open(page)
    row = 123
    select(browser, row)
    options = browser.run(
        "return [...document.querySelectorAll('#direction option')].map(o => o.textContent)"
    )
    vectors = {f"component {j + 1}": j for j in range(3)}
    vectors |= {f"label: {c} against the others": class_direction(probe.model, c) for c in range(10)}
    assert set(vectors) | {"concept: round"} == set(options)
    for k, name in enumerate(options):
        choose(browser, "direction", k)
        *parts, (_, total) = values(browser, "#contributions > li")
        sizes = sum(abs(value) for _, value in parts)
        assert abs(sum(value for _, value in parts) - total) < 1e-5 * sizes
        if name in vectors:
            (expected,) = parts_along(model, X[row : row + 1], [vectors[name]], 6)
            assert [landmark for landmark, _ in parts[:6]] == expected.landmarks[0].tolist()
            step = np.abs(expected.parts[0]).max() / 32767
            found = [value for _, value in parts[:6]]
            np.testing.assert_allclose(found, expected.parts[0], atol=0.51 * step, rtol=1e-5)
            assert abs(parts[6][1] - expected.unexplained[0]) < 1e-3 * sizes
            shown = [value for _, value in parts[:7]]
            told = browser.run("return document.getElementById('cancels') !== null")
            assert told == (sum(map(abs, shown)) > 2 * abs(sum(shown)))


def test_the_legend_filters_classes(browser, digits_page):
    y, page = digits_page[2], digits_page[-1]
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


def test_a_hidden_row_cannot_be_clicked(browser, digits_page):
    y, page = digits_page[2], digits_page[-1]
    browser.open(page)
    browser.run("document.getElementById('show-landmarks').click()")  # the row may be one
    row, x, at = isolated_rows(browser, 1)[0]
    browser.run('document.querySelector(`#legend [data-code="${arguments[0]}"]`).click()', int(y[row]))
    before = browser.text("#sample h2")
    browser.click(x, at)
    assert browser.text("#sample h2") == before != f"Row {row}"


def test_texts_of_the_user_are_shown_as_text(browser, people_page):
    """A script in a label, level, name or title would open an alert, which fails every later command."""
    _, frame, page = people_page
    browser.open(page)
    assert browser.text("h1") == SCRIPT
    assert browser.driver.title == SCRIPT
    assert SCRIPT in browser.text("#legend")
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.run("return document.querySelectorAll('b').length") == 0
    row = int(np.flatnonzero(frame["job"].str.startswith("smith"))[0])
    select(browser, row)
    assert f"smith {SCRIPT}" in browser.text("#features")
    assert "<b>wage</b>" in browser.text("#features")
    browser.run(
        "const c = document.getElementById('colour'); c.value = 2; c.dispatchEvent(new Event('change'))"
    )
    assert browser.run("return document.querySelectorAll('script').length") == 2


def test_agreement_is_the_formula(browser, people_page):
    """mean over rows of the squared difference from the landmark, less that of the row, as the kernel sees columns."""
    model, frame, page = people_page
    browser.open(page)
    encoder = model.input_space_.encoder
    X, L = encoder.transform(frame).astype(np.float64), model.landmarks_.double().numpy()
    for row in (9, 20):  # row 9 has no age
        select(browser, row)
        landmark = values(browser, "#headline > li")[0][0]
        rows = "[...document.querySelectorAll('#features tbody tr')]"
        names = browser.run(f"return {rows}.map(r => r.cells[0].firstChild.textContent)")
        cells = dict(
            zip(names, browser.run(f"return {rows}.map(r => r.querySelector('.agreement').textContent)"))
        )
        assert len(cells) == 3
        for column, group in zip(encoder.columns_, encoder.groups_, strict=True):
            name = column.name
            shown = cells[name]
            squares = ((X[:, group] - L[landmark, group]) ** 2).sum(1)
            expected = squares.mean() - squares[row]
            found = float(shown.replace("−", "-").replace(",", ""))
            assert abs(found - expected) < 0.006 * max(1, abs(expected)), name


def test_low_coverage_is_a_warning(browser, people_page):
    page = people_page[2]
    browser.open(page, hash="#row=7")
    assert selected(browser) == 7
    assert "This sample is unlike every landmark" in browser.text("#sample .warning")
    select(browser, 8)
    assert browser.run("return document.querySelector('#sample .warning')") is None


def test_the_keyboard_walks_enters_and_lets_go(browser, digits_page):
    browser.open(digits_page[-1])
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


def test_everything_that_can_be_used_has_a_name_and_a_visible_focus(browser, digits_page):
    browser.open(digits_page[-1])
    names = browser.run("""
      return [...document.querySelectorAll('button, select, input, canvas:not([aria-hidden]), [tabindex="0"]')].map(e =>
        e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent);
    """)
    assert len(names) > 30
    assert all(name.strip() for name in names)
    browser.press("\ue004")  # Tab, so that focus is shown
    browser.run("document.getElementById('map').focus()")
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_focus_stays_in_the_panel(browser, digits_page):
    """A button that fills the panel anew is there again, and has the focus."""
    browser.open(digits_page[-1])
    before = selected(browser)
    browser.run("document.querySelector('[aria-label=\"Next row\"]').focus()")
    browser.press(ENTER)
    assert selected(browser) == before + 1
    assert browser.run("return document.activeElement.getAttribute('aria-label')") == "Next row"
    browser.run("document.querySelector('#headline .landmark').focus()")
    browser.press(ENTER)
    assert browser.text("#sample h2").startswith("Landmark")
    assert browser.run("return document.activeElement.id") == "sample"


def test_a_row_is_explained_along_its_own_class_until_another_direction_is_chosen(browser, digits_page):
    y, page = digits_page[2], digits_page[-1]
    browser.open(page)
    along = "return document.getElementById('contributions').dataset.direction"
    for row in (3, 4):
        select(browser, row)
        assert browser.run(along) == f"label: {y[row]} against the others"
    choose(browser, "direction", 1)
    select(browser, 5)
    assert browser.run(along) == "component 2"


def test_rows_are_found_by_number_and_by_text(browser, people_page):
    _, frame, page = people_page
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


def test_zoom_landmarks_and_tooltip(browser, digits_page):
    browser.open(digits_page[-1])
    row, x, y = isolated_rows(browser, 1)[0]
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert f"row {row}" in browser.text("#tooltip")
    browser.wheel(x, y, -300)
    browser.run("document.getElementById('zoom-in').click()")
    assert browser.run("return krepesReport.map.zoom") > 2
    # The place under the pointer stays where it is while the wheel turns.
    browser.open(digits_page[-1])
    browser.wheel(x, y, -300)
    zoomed = in_window(browser, row)
    np.testing.assert_allclose(zoomed, [x, y], atol=2)
    assert browser.text("#show-landmarks") == "landmarks 50"
    pixels = "const c = krepesReport.map; c.paint(); return c.canvas.toDataURL()"
    before = browser.run(pixels)
    browser.run("document.getElementById('show-landmarks').click()")
    assert (
        browser.run("return document.getElementById('show-landmarks').getAttribute('aria-pressed')")
        == "false"
    )
    assert browser.run(pixels) != before


def test_colours_of_numbers_maps_concepts_and_landmarks(browser, digits_page):
    model, X, *_, page = digits_page
    browser.open(page)
    choose(browser, "colour", 1)
    assert "coverage" in browser.text("#legend")
    colours = browser.run("return krepesReport.map.colours")
    assert len(set(colours)) > 50
    before = browser.run("return krepesReport.where(5)")
    choose(browser, "which", 2)
    assert "chosen with the labels" in browser.text("#axes")
    assert browser.run("return krepesReport.where(5)") != before
    assert "round" in browser.text("#concepts")
    browser.run("document.querySelector('#concepts .example').click()")
    assert browser.text("#sample .badge").strip() == "0"
    browser.run("document.querySelector('#headline .landmark').click()")
    assert "Landmark: row" in browser.text("#sample h2")
    rows = browser.run(
        "return [...document.querySelectorAll('#sample .example')].map(e => Number(e.dataset.row))"
    )
    landmark = browser.run("return krepesReport.map.landmark")
    top = examples(model, X, 6)
    score = np.where(top.landmarks == landmark, top.shares, 0).max(1)
    assert rows[:3] == np.argsort(-score)[:3].tolist()
    assert browser.console() == []


def test_words_break_only_where_they_do_not_fit(browser, digits_page):
    """U13: "automobil/e"."""
    heights = """
        const cell = document.createElement("td"), row = document.createElement("tr");
        const table = document.createElement("table");
        table.style.width = "10px";
        row.append(cell);
        table.append(row);
        document.querySelector("main").append(table);
        return ["a", "automobile"].map(word => {
          cell.textContent = word;
          return cell.getBoundingClientRect().height;
        });
    """
    browser.open(digits_page[-1])
    one, word = browser.run(heights)
    assert word == one
    assert "anywhere" not in browser.run(
        "return [...document.querySelectorAll('.badge, td, th')].map(e => getComputedStyle(e).overflowWrap)"
    )


def test_a_phone_a_dark_room_and_paper(browser, digits_page, people_page):
    for page in (digits_page[-1], people_page[2]):
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
