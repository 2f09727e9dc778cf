"""The documentation runs, and what it quotes is the source."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
QUOTE = re.compile(r"<!-- source: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_every_block_of_a_page_runs_in_order(page, tmp_path, monkeypatch):
    if page.name == "serving.md":
        pytest.skip("runs in test_saved_models, which makes the file it reads")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)


def test_contributing_quotes_the_source():
    quotes = QUOTE.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert len(quotes) >= 3
    for path, code in quotes:
        assert code in (ROOT / path).read_text(), f"CONTRIBUTING.md quotes {path}, which has changed"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.full
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example, tmp_path):
    result = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
