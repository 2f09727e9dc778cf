"""Figures that pages quote are those that benchmarks have recorded, and colours of the report can be told apart."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
TO_LMS = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
TO_LAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])


def test_the_coverage_that_is_quoted_was_measured():
    """M8: conformal.md and the benchmark differed."""
    figures = json.loads((ROOT / "benchmarks/results/conformal.json").read_text())["figures"]
    measured = {
        name: float(str(value).split()[0]) for name, value in figures.items() if "0.9: coverage" in name
    }

    def mean(kind: str, calibrated: bool) -> str:
        of_sets = (n for n in measured if n.startswith(kind) and " mean" not in n)
        values = [measured[name] for name in of_sets if ("calibrated" in name) == calibrated]
        return f"{np.mean(values):.3f}".removeprefix("0")

    page = (ROOT / "docs/conformal.md").read_text()
    quoted = re.search(r"coverage at 0.9 is (\S+) \(intervals\) and (\S+) \(sets\)", page).groups()
    assert quoted == (mean("intervals", False), mean("sets", False))
    quoted = re.search(r"for calibration it is (\S+) and (\.\d+)", page).groups()
    assert quoted == (mean("intervals", True), mean("sets", True))


def lab(colour: str) -> np.ndarray:
    """Lightness and two opponent colours (Oklab)."""
    shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return TO_LAB @ np.cbrt(TO_LMS @ linear)


def test_greys_of_classes_differ_in_lightness():
    """U13: by more than the steps of a printed scale of seven greys, on light and on dark pages."""
    text = (ROOT / "src/krepes/report/template/colours.js").read_text()
    for name in ("TEN", "TEN_DARK"):
        colours = re.findall(r"#\w{6}", re.search(rf"const {name} = (.*);", text).group(1))
        light = sorted(L for L, *ab in map(lab, colours) if np.hypot(*ab) < 0.03)
        assert len(light) == 2
        assert np.diff(light).min() > 1 / 7
