"""The page in a real browser: maps, nearest rows, heat maps, groups, and everything by keyboard and screen reader."""

from __future__ import annotations

import re

import numpy as np

from krepes.report import write_report
from report_content import content, map_of, unpacked
from report_pages import ENTER, RIGHT, SCRIPT, TAB, choose, select, selected, values


def group(browser, which=0):
    return browser.run("return [...krepesReport.groups[arguments[0]]].sort((a, b) => a - b)", which)


def differences(browser):
    rows = "[...document.querySelectorAll('#differences tbody tr')]"
    return dict(browser.run(f"return {rows}.map(r => [r.dataset.column, Number(r.dataset.effect)])"))


def around(browser, rows, room=6.0):
    """A closed line around rows, in the window: the box of their places, a little larger; and the rows inside it."""
    script = "const b = krepesReport.map.canvas.getBoundingClientRect(); return Array.from({ length: 400 }, (_, i) => "
    places = np.array(browser.run(script + "krepesReport.where(i).map((v, k) => v + [b.left, b.top][k]))"))
    low, high = places[rows].min(0) - room, places[rows].max(0) + room
    (left, top), (right, bottom) = low.tolist(), high.tolist()
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    inside = np.flatnonzero((places > low).all(1) & (places < high).all(1)).tolist()
    return [*corners, corners[0], corners[0]], inside


def test_a_line_around_rows_makes_a_group(browser, digits_page):
    """Exactly the rows inside; Shift adds, Alt takes out; hidden rows are not taken."""
    page = digits_page[-1]
    browser.open(page)
    browser.run("document.getElementById('map').scrollIntoView()")
    browser.run("document.getElementById('lasso').click()")
    line, expected = around(browser, [3, 4])
    browser.drag(line)
    assert group(browser) == expected
    assert {3, 4} <= set(expected)
    assert f"Group A: {len(expected)} rows" in browser.text("#status")
    other, more = around(browser, [100])
    browser.drag(other, modifiers=8)
    assert group(browser) == sorted({*expected, *more})
    browser.drag(other, modifiers=1)
    assert group(browser) == sorted(set(expected) - set(more))
    zoom = browser.run("return [krepesReport.map.panX, krepesReport.map.panY]")
    assert zoom == [0, 0]  # a line does not move the map
    y = digits_page[2]
    browser.run('document.querySelector(`#legend [data-code="${arguments[0]}"]`).click()', int(y[3]))
    browser.drag(line)
    assert group(browser) == [row for row in expected if y[row] != y[3]]
    assert browser.console() == []


def test_groups_are_compared_by_the_formulas(browser, people_page):
    """d = difference of means over the standard deviation of all rows; h = difference of arcsines of shares."""
    _, frame, page = people_page
    browser.open(page)
    choose(browser, "filter-field", "0")  # rich
    browser.run(
        "document.getElementById('filter').requestSubmit(document.querySelector('#filter [value=set]'))"
    )
    chosen = group(browser)
    first = browser.run("return document.getElementById('filter-level').selectedOptions[0].textContent")
    assert chosen == np.flatnonzero(frame["rich"] == first).tolist()
    found = differences(browser)
    inside = np.isin(np.arange(200), chosen)
    ages = frame["age"].to_numpy()
    d = (np.nanmean(ages[inside]) - np.nanmean(ages[~inside])) / np.nanstd(ages)
    assert abs(found["age"] - d) < 1e-3 * max(1, abs(d))
    angles = [
        2 * np.arcsin(np.sqrt((frame["job"][inside] == job).mean()))
        - 2 * np.arcsin(np.sqrt((frame["job"][~inside] == job).mean()))
        for job in frame["job"].unique()
    ]
    h = max(angles, key=abs)
    assert abs(found["job"] - h) < 1e-9
    lines = "[...document.querySelectorAll('#shared-landmarks tbody tr')]"
    shares = browser.run(f"return {lines}.map(r => [Number(r.dataset.landmark), r.cells[1].textContent])")
    headline = content(page)["headline"]
    tops = unpacked(headline["landmarks"]).reshape(200, -1)
    for landmark, text in shares:
        share = (tops[inside] == landmark).any(1).mean()
        assert abs(float(text.rstrip(" %")) / 100 - share) < 0.006
    assert browser.run("return document.querySelectorAll('b').length") == 0  # names of columns are text
    assert browser.run("return document.querySelectorAll('script').length") == 2


def test_rows_are_filtered_by_a_range_and_shown_alone(browser, people_page):
    _, frame, page = people_page
    browser.open(page)
    names = browser.run(
        "return [...document.querySelectorAll('#filter-field option')].map(o => o.textContent)"
    )
    choose(browser, "filter-field", str(names.index("age")))
    browser.run(
        "document.getElementById('filter-low').value = 30; document.getElementById('filter-high').value = 40"
    )
    browser.run(
        "document.getElementById('filter').requestSubmit(document.querySelector('#filter [value=set]'))"
    )
    expected = np.flatnonzero((frame["age"] >= 30) & (frame["age"] <= 40)).tolist()
    assert group(browser) == expected
    browser.run("document.getElementById('only-groups').click()")
    assert browser.run("return krepesReport.seen()") == len(expected)
    browser.run("document.getElementById('clear-groups').click()")
    assert browser.run("return krepesReport.seen()") == 200
    assert group(browser) == []
    browser.run(
        "document.getElementById('query').value = 'cook'; document.getElementById('search').requestSubmit()"
    )
    choose(browser, "filter-field", "found")
    browser.run(
        "document.getElementById('filter').requestSubmit(document.querySelector('#filter [value=set]'))"
    )
    assert group(browser) == np.flatnonzero(frame["job"] == "cook & co").tolist()


def test_nearest_rows_are_those_of_the_representation(browser, digits_page):
    model, X, y, _, page = digits_page
    browser.open(page)
    Z = model.transform(X).astype(np.float64)
    for row in (5, 77):
        select(browser, row)
        examples = "[...document.querySelectorAll('#nearest .example')]"
        found = browser.run(f"return {examples}.map(e => Number(e.dataset.row))")
        distances = np.linalg.norm(Z - Z[row], axis=1)
        distances[row] = np.inf
        assert found == np.argsort(distances, kind="stable")[:6].tolist()
        alike = int((y[found] == y[row]).sum())
        assert f"{alike} of 6 have the same label" in browser.text("#nearest")
    browser.run("document.querySelector('#nearest .example').click()")
    assert selected(browser) == found[0]


def test_maps_are_chosen_and_say_how_far_to_trust_them(browser, digits_page):
    page = digits_page[-1]
    held = content(page)["maps"]
    browser.open(page)
    options = browser.run("return [...document.querySelectorAll('#which option')].map(o => o.textContent)")
    assert options == [each["name"] for each in held]
    assert options[0].startswith("neighbours")
    places = []
    for k, each in enumerate(held):
        choose(browser, "which", k)
        assert f"Trustworthiness {each['trust']:.3f}" in browser.text("#axes")
        assert each["name"] in browser.text("#status")
        places.append(browser.run("return krepesReport.where(5)"))
    assert len(set(map(tuple, places))) == 3
    assert map_of(content(page), "neighbours")["trust"] > map_of(content(page), "principal")["trust"]


def test_landmarks_do_not_cover_rows(browser, digits_page):
    """A pixel in the middle of a row has the row's colour, whether landmarks are shown or not."""
    browser.open(digits_page[-1])
    browser.press("\ue00c")
    script = """
      const map = krepesReport.map; krepesReport.map.showLandmarks = arguments[0];
      Object.assign(map, { row: -1, landmark: -1, links: [] }); map.paint();
      map.context.globalCompositeOperation = "destination-over"; map.context.fillStyle = "#fff";
      map.context.fillRect(0, 0, map.width, map.height); map.context.globalCompositeOperation = "source-over";
      return Array.from({length: 400}, (_, i) => {
        const [x, y] = map.at(map.places.rows, i);
        return [...map.context.getImageData(Math.round(x), Math.round(y), 1, 1).data].slice(0, 3);
      });"""
    shown, hidden = np.array(browser.run(script, True)), np.array(browser.run(script, False))
    assert (shown != hidden).any()  # landmarks are seen
    below = 0.22 * 0.7 * 255  # rows are drawn with 78 % over what lies below, an outline of 70 %
    assert np.abs(shown - hidden).max() <= below + 1


def test_a_row_that_is_not_on_the_page_is_said_to_be_missing(browser, digits_page, tmp_path):
    model, X, y, *_ = digits_page
    few = write_report(model, X, tmp_path / "few.html", labels=y, max_rows=50, map="none")
    rows = unpacked(content(few)["rows"]).astype(int)
    missing = next(row for row in range(100, 400) if row not in rows)
    browser.open(few, hash=f"#row={missing}")
    assert browser.text("#sample h2") == f"Row {missing} is not on this page"
    for text in (browser.text("#sample"), browser.text("#status")):
        assert "not among the 50 of 400 rows" in text
        assert "written with at most 50 rows" in text
    assert "written with real rows" in browser.text("#notice")
    browser.run("location.hash = '#row=9999'")
    browser.run("return new Promise(done => setTimeout(done, 50))")
    assert "The data have 400 rows" in browser.text("#sample")
    there = int(rows[7])
    browser.run(f"location.hash = '#row={there}'")
    browser.run("return new Promise(done => setTimeout(done, 50))")
    assert selected(browser) == there
    find = """document.getElementById('query').value = arguments[0];
      document.getElementById('search').requestSubmit(); return document.getElementById('status').textContent"""
    assert "not on this page" in browser.run(find, str(missing))
    assert browser.console() == []


def test_pixels_and_columns_that_count_are_shown(browser, digits_page, people_page):
    page = digits_page[-1]
    browser.open(page)
    select(browser, 12)
    heat = content(page)["heat"]
    shares = unpacked(heat["shares"]).reshape(400, -1)[12]
    drawn = browser.run("""
      const over = document.querySelector('.over'), c = over.getContext('2d');
      const { data } = c.getImageData(0, 0, over.width, over.height);
      return [over.width, over.height, [...data].filter((_, k) => k % 4 === 3)];
    """)
    assert drawn[:2] == heat["grid"][::-1]
    np.testing.assert_allclose(drawn[2], 0.85 * shares, atol=1)
    assert "counts most" in browser.run(
        "return document.querySelector('.heat .thumb').getAttribute('aria-label')"
    )
    browser.open(people_page[2])
    select(browser, 20)
    order = browser.run(
        "return [...document.querySelectorAll('#features .counts')].map(e => Number(e.dataset.heat))"
    )
    assert len(order) == 3
    assert order == sorted(order, reverse=True)
    held = content(people_page[2])["heat"]
    part = unpacked(held["shares"]).reshape(200, 3)[20] / 255 * unpacked(held["largest"])[20]
    np.testing.assert_allclose(order, np.sort(part)[::-1], rtol=1e-6)


def test_sentences_about_columns_say_same_or_similar(browser, people_page):
    """Same: equal values. Similar: numbers within a quarter of the column's deviation. Nothing else is named."""
    model, frame, page = people_page
    browser.open(page)
    deviation = {name: frame[name].std() for name in ("age", "<b>wage</b>")}
    seen = 0
    for row in range(0, 200, 20):
        select(browser, row)
        landmarks = [landmark for landmark, _ in values(browser, "#headline > li")][:-1]  # then what is left
        lines = "[...document.querySelectorAll('#headline > li')]"
        sentences = browser.run(f"return {lines}.map(e => e.querySelector('.agreed')?.textContent ?? '')")
        for landmark, sentence in zip(landmarks, sentences):
            other = frame.iloc[model.landmark_indices_[landmark]]
            for name, first, second in re.findall(
                r"imilar (age|<b>wage</b>) \(([^)]*) and ([^)]*)\)", sentence
            ):
                seen += 1
                assert abs(float(first) - frame[name][row]) < 1e-3 * abs(float(first))
                assert abs(float(second) - other[name]) < 1e-3 * abs(float(second))
                assert abs(float(first) - float(second)) <= 0.26 * deviation[name]
            if "ame job" in sentence:
                assert frame["job"][row] == other["job"]
                seen += 1
    assert seen > 10


def test_an_explanation_is_copied_as_text(browser, people_page):
    browser.open(people_page[2])
    select(browser, 9)
    browser.run(
        "window.copied = null; navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    )
    browser.run("document.getElementById('copy').click()")
    browser.run("return new Promise(done => setTimeout(done, 20))")
    text = browser.run("return window.copied")
    assert "Copied the explanation of row 9" in browser.text("#status")
    for part in ("row 9", "Coverage", "Made of these examples", "Nearest rows", "<b>wage</b>", SCRIPT):
        assert part in text
    landmark = values(browser, "#headline > li")[0][0]
    assert str(people_page[0].landmark_indices_[landmark]) in text


def test_the_keyboard_alone_reaches_everything(browser, digits_page):
    """Tab goes through the page in its order; a row is put into groups, and a filter selects, without a mouse."""
    browser.open(digits_page[-1])
    reached = []
    for _ in range(60):
        browser.press(TAB)
        reached.append(browser.run("return document.activeElement.id || document.activeElement.className"))
        if reached[-1] == "filter-field":
            break
    names = ("which", "colour", "query", "map", "zoom-in", "lasso", "copy", "filter-field")
    order = [reached.index(name) for name in names]
    assert order == sorted(order)
    browser.run("document.getElementById('map').focus()")
    first = selected(browser)
    browser.press("a")
    assert group(browser) == [first]
    browser.press(RIGHT)
    second = selected(browser)
    browser.press("b")
    assert group(browser, 1) == [second]
    browser.press("a")  # a row is in one group only
    assert (group(browser), group(browser, 1)) == (sorted([first, second]), [])
    browser.press("a")
    assert group(browser) == [first]
    browser.press("l")
    assert browser.run("return document.getElementById('lasso').getAttribute('aria-pressed')") == "true"
    browser.run("document.querySelector('#filter [value=set]').focus()")
    browser.press(ENTER)
    assert group(browser) == np.flatnonzero(digits_page[2] == 0).tolist()
    assert f"Group A: {len(group(browser))} rows" in browser.text("#status")


def test_a_screen_reader_hears_a_name_for_everything(browser, digits_page, people_page):
    for page in (digits_page[-1], people_page[2]):
        browser.open(page)
        browser.run("document.querySelector('#filter [value=set]').click()")
        nodes = browser.nodes()
        unnamed = [
            node for node in nodes if node["focusable"] and not node["name"] and node["role"] != "RootWebArea"
        ]
        assert unnamed == []
        pictures = [node for node in nodes if node["role"] in ("img", "image") and not node["name"]]
        assert pictures == []
        live = browser.run("return [...document.querySelectorAll('[aria-live]')].map(e => e.id)")
        assert live == ["status"]


def test_nothing_is_wider_than_a_phone(browser, digits_page, people_page):
    for page in (digits_page[-1], people_page[2]):
        browser.open(page, width=390, height=844)
        browser.run("document.querySelector('#filter [value=set]').click()")
        select(browser, 20)
        wide = """
          const inScroll = (e) => e.closest('.scroll') !== null;
          return [...document.querySelectorAll('body *')].filter(e => !inScroll(e))
            .filter(e => e.getBoundingClientRect().right > 391)
            .map(e => e.tagName + '#' + e.id + '.' + e.className)"""
        assert browser.run(wide) == []
        assert browser.run("return document.documentElement.scrollWidth") <= 390
