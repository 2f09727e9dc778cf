"""The page that scores in a browser says what krepes says, alone."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from headless_browser import chromium
from krepes import KernelEmbedding
from krepes.export import ExportError
from krepes.kernels import Patches
from krepes.machines import KernelRidgeClassifier
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
        before = browser.text("#outputs")
        browser.run(
            "const slider = document.querySelectorAll('input[type=range]')[1]; slider.value = slider.max;"
            "slider.oninput()"
        )
        assert browser.text("#outputs") != before
        assert browser.run("return document.querySelectorAll('#landmarks tr').length") == 8
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
