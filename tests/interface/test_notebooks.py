"""The notebooks run from top to bottom, and hold the outputs of a run."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"


@pytest.mark.parametrize("name", ["table", "images"])
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    names: dict = {}
    for i, cell in enumerate(code):
        exec(compile("".join(cell["source"]), f"{name}.ipynb, cell {i}", "exec"), names)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell["outputs"])
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])
    if name == "table":
        assert names["right"].mean() > 0.85
