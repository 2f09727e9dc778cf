"""The page that scores in a browser says what krepes says, alone."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from command_line import run, words
from headless_browser import chromium
from krepes import KernelAutoencoder, KernelEmbedding
from krepes.explain import attribution
from krepes.export import ExportError
from krepes.kernels import ArcCosine, InfiniteWidth, Matern, Patches
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.report import scoring_page as pages

needs_browser = pytest.mark.skipif(
    shutil.which("chromium") is None and not os.environ.get("CI"), reason="Chromium is not installed"
)
FAST = {"kernel": "gaussian", "lengthscale": "median", "input_metric": None, "random_state": 0}


def people(n=160):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "income": np.exp(rng.normal(10, 1.5, n)),
            "job": rng.choice(["cook", "smith", "</script>"], n),
            "member": rng.choice(["yes", "no"], n),
        }
    )
    frame.loc[::9, "age"] = np.nan
    frame.loc[::11, "job"] = None
    return frame


def json_rows(frame):
    return [
        {key: None if pd.isna(value) else value for key, value in row.items()}
        for row in frame.to_dict("records")
    ]


@needs_browser
def test_a_table_and_digits_in_chromium(tmp_path):
    frame = people()
    model = KernelRidgeClassifier(kernel="auto", lengthscale="median", input_metric=None, random_state=0)
    model.fit(frame, np.where(frame.income > 20_000, "rich", "poor"))
    rows = frame[:50].copy()
    rows.loc[5, "job"] = "never seen"
    pages.write_scoring_page(model, tmp_path / "table.html")
    pixels, y = load_digits(return_X_y=True)
    images = (pixels * 15).astype(np.uint8).reshape(-1, 8, 8)
    digits = KernelRidgeClassifier(**FAST, n_landmarks=150).fit(images[:300], y[:300])
    pages.write_scoring_page(digits, tmp_path / "digits.html")
    by_patches = KernelRidgeClassifier(kernel=Patches(16), n_landmarks=60, random_state=0)
    pages.write_scoring_page(by_patches.fit(images[:300], y[:300]), tmp_path / "patches.html")
    with chromium(tmp_path / "profile") as browser:
        browser.driver.set_window_size(1100, 800)
        browser.driver.get((tmp_path / "table.html").as_uri())
        found = browser.run(
            "return arguments[0].map((row) => krepesScore(row).probabilities)", json_rows(rows)
        )
        np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-4)
        assert "was" not in browser.text("#outputs")
        before = browser.run("return krepesScore(JSON.parse(document.getElementById('pasted').value))")
        browser.run(
            "const slider = document.querySelectorAll('input[type=range]')[1]; slider.value = slider.max;"
            "slider.oninput()"
        )
        told = browser.run("return [...document.querySelectorAll('td .was')].map((e) => e.textContent)")
        for text, probability in zip(told, before["probabilities"], strict=False):
            assert text.startswith("was ")
            assert float(text[4:]) == pytest.approx(probability, rel=1e-4)
        browser.run("document.getElementById('compare').click()")
        assert "was" not in browser.text("#outputs")
        _check_explanation(browser, model, rows)
        browser.run("const t = document.getElementById('pasted'); t.value = '{'; t.onchange({target: t})")
        assert browser.text("#problem").startswith("This row cannot be read")
        browser.driver.save_screenshot(str(tmp_path / "table.png"))
        browser.driver.get((tmp_path / "digits.html").as_uri())
        drawn = [{"X": image.ravel().tolist()} for image in images[300:320]]
        found = browser.run("return arguments[0].map((row) => krepesScore(row).probabilities)", drawn)
        np.testing.assert_allclose(found, digits.predict_proba(images[300:320]), atol=1e-4)
        assert browser.run("return document.querySelectorAll('canvas').length") == 1
        browser.driver.get((tmp_path / "patches.html").as_uri())
        found = browser.run("return arguments[0].map((row) => krepesScore(row).probabilities)", drawn[:5])
        np.testing.assert_allclose(found, by_patches.predict_proba(images[300:305]), atol=1e-4)
        browser.driver.get((tmp_path / "digits.html").as_uri())
        browser.driver.save_screenshot(str(tmp_path / "digits.png"))
        assert not [
            each for each in browser.requests() if not each.startswith("chrome://")
        ]  # a new tab's own
        assert not browser.console()


def _check_explanation(browser, model, rows):
    """What the page says that landmarks add is `attribution` to the score of the predicted class."""
    paste = "const t = document.getElementById('pasted'); t.value = arguments[0]; t.onchange({target: t})"
    for i in range(5):
        row = rows[i : i + 1]
        browser.run(paste, json.dumps(json_rows(row)[0]))
        cells = browser.run(
            "return [...document.querySelectorAll('#landmarks tr')].map((r) => r.innerText.split(/\\s+/))"
        )
        assert len(cells) == 8
        expected = attribution(model, row, int(model.predict_proba(row).argmax()))[0]
        shown = [float(cell[-1]) for cell in cells]
        places = [model.landmark_indices_.tolist().index(int(cell[1])) for cell in cells]
        np.testing.assert_allclose(shown, expected[places], rtol=1e-4, atol=1e-4)  # of five digits
        np.testing.assert_allclose(np.abs(shown), np.sort(np.abs(expected))[:-9:-1], rtol=1e-4, atol=1e-4)


def kinds():
    """Every kind of model, rows in JSON, and what krepes says of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y, rows = np.sin(X[:, 0]) + X[:, 1] ** 2, X[:12] + 0.1
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [0.4, 1.2])]
    for kernel in ("gaussian", "laplacian", ArcCosine(depth=2), InfiniteWidth(activation="erf"), Matern()):
        model = KernelEmbedding(3, kernel=kernel, loss="kernel_pca", n_landmarks=20, random_state=0).fit(X)
        yield str(kernel), model, rows, {"embedding": model.transform(rows)}
    cells = KernelRidgeRegressor(**FAST, local=True).fit(X, y)
    yield "cells", cells, rows, {"prediction": cells.predict(rows)}
    process = GaussianProcessRegressor(**FAST).fit(X, y)
    mean, deviation = process.predict(rows, return_std=True)
    yield "process", process, rows, {"prediction": mean, "deviation": deviation}
    of_classes = GaussianProcessClassifier(**FAST).fit(X, classes)
    yield "process, classes", of_classes, rows, {"probabilities": of_classes.predict_proba(rows)}
    novelty = NoveltyDetector(kernel="gaussian", lengthscale="median", random_state=0).fit(X)
    far = np.concatenate([rows, 9 * rows[:3]])
    told = {
        "score": novelty.score_samples(far),
        "p_value": novelty.p_values(far),
        "label": novelty.predict(far),
    }
    yield "novelty", novelty, far, told
    auto = KernelAutoencoder(2, max_iter=20, tol=1e9, random_state=0).fit(X[:40])
    told = {"embedding": auto.transform(rows), "reconstruction": auto.reconstruct(rows)}
    yield "autoencoder", auto, rows, told
    waves = rng.normal(size=(60, 12, 2)).astype(np.float32).cumsum(1)
    common = {"kernel": "gaussian", "loss": "kernel_pca", "n_landmarks": 20, "random_state": 0}
    series = KernelEmbedding(3, preprocess="series", **common).fit(waves)
    yield "series", series, waves[:5], {"embedding": series.transform(waves[:5])}


@needs_browser
def test_every_kind_of_model_in_chromium(tmp_path):
    with chromium(tmp_path / "profile") as browser:
        for name, model, rows, expected in kinds():
            page = tmp_path / "page.html"
            pages.write_scoring_page(model, page, overwrite=True)
            browser.driver.get(page.as_uri())
            given = [{"X": row.ravel().tolist()} for row in rows]
            found = browser.run("return arguments[0].map(krepesScore)", given)
            for output, values in expected.items():
                said = np.array([each[output] for each in found]).reshape(np.shape(values))
                np.testing.assert_allclose(said, values, atol=1e-4, err_msg=f"{name}, {output}")
            assert not browser.console(), name


@needs_browser
def test_dates_are_written_as_dates(tmp_path):
    rng = np.random.default_rng(0)
    days = rng.uniform(0, 900, 80)
    when = pd.Timestamp("2021-01-01") + pd.to_timedelta(days, unit="D").round("s")
    frame = pd.DataFrame({"when": when, "x": rng.normal(size=80)})
    frame.loc[::9, "when"] = pd.NaT
    model = KernelRidgeRegressor(**FAST).fit(frame, np.sin(days / 100) + frame.x)
    pages.write_scoring_page(model, tmp_path / "page.html")
    rows = frame[:10].copy()
    given = json_rows(rows.assign(when=rows.when.map(lambda t: None if pd.isna(t) else t.isoformat())))
    rows.loc[1, "when"], given[1]["when"] = pd.Timestamp("2021-05-17"), "2021-05-17"
    rows.loc[2, "when"], given[2]["when"] = pd.Timestamp("2021-05-17 12:30"), "2021-05-17T12:30:00+02:00"
    rows.loc[3, "when"], given[3]["when"] = pd.Timestamp("1970-01-02"), 86_400
    with chromium(tmp_path / "profile") as browser:
        browser.driver.get((tmp_path / "page.html").as_uri())
        found = browser.run("return arguments[0].map((row) => krepesScore(row).prediction[0])", given)
        np.testing.assert_allclose(found, model.predict(rows), atol=1e-4)
        browser.run(
            "const box = document.querySelector('input[type=datetime-local]'); box.value = '2021-05-17T12:30:15';"
            "box.oninput()"
        )
        pasted = json.loads(browser.run("return document.getElementById('pasted').value"))
        assert pasted["when"] == "2021-05-17T12:30:15"
        assert browser.run("return [...document.querySelectorAll('input')].every((e) => e.value !== '')")


@needs_browser
def test_long_representations_are_shown_in_part(tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 30))
    model = KernelEmbedding(20, kernel="gaussian", loss="kernel_pca", n_landmarks=40, random_state=0).fit(X)
    pages.write_scoring_page(model, tmp_path / "page.html")
    with chromium(tmp_path / "profile") as browser:
        browser.driver.get((tmp_path / "page.html").as_uri())
        shown = browser.text("#outputs")
    assert "the first 16 of 20 numbers" in shown
    assert "undefined" not in shown


def test_explain_writes_the_interactive_page(tmp_path):
    frame = people()
    frame.to_parquet(tmp_path / "people.parquet")
    KernelRidgeRegressor(**FAST).fit(frame, frame.income).save(tmp_path / "m.krepes")
    asked = "explain", tmp_path / "m.krepes", tmp_path / "people.parquet"
    run(*asked, "-o", tmp_path / "page.html", "--interactive")
    assert "score a row" in (tmp_path / "page.html").read_text()
    assert "--interactive writes a page" in words(run(*asked, "--interactive", code=2))
    told = run(*asked, "-o", tmp_path / "other.html", "--interactive", "--no-samples", code=2)
    assert "--interactive writes a page" in words(told)
    assert not (tmp_path / "other.html").exists()


def test_a_page_allows_no_connection_and_refuses_large_models(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = KernelEmbedding(2, loss="kernel_pca", n_landmarks=10, random_state=0).fit(X)
    text = pages.scoring_page(model)
    assert "default-src 'none'" in text
    assert "connect-src" not in text
    assert "http://" not in text
    assert "https://" not in text
    monkeypatch.setattr(pages, "LARGEST", 10)
    with pytest.raises(ExportError, match="fewer landmarks"):
        pages.scoring_page(model)
