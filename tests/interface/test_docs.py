"""The documentation runs, prints what it says, links to what exists, and quotes the source."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = {"commands.md", "api/index.rst", "gallery/index.rst"}  # by `make docs`
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in MADE)]
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)
QUOTE = re.compile(r"<!-- source: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_SOURCE = r"[a-z]{3,}(?:, (?:section|appendix|ch\.|[A-Z0-9])[^];]*)?"  # a key, and perhaps a place in it
KEY = re.compile(rf"(?<![\w)\]])\[({_SOURCE}(?:; {_SOURCE})*)\]")


SLOW = {
    "evaluation.md",
    "explain.md",
    "losses.md",
    "report.md",
    "training.md",
    "tuning.md",
}  # for the long checks


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.full if page.name in SLOW else ())
        for page in PAGES
        if "```python" in page.read_text()
    ],
)
def test_every_block_of_a_page_runs_in_order(page, tmp_path, monkeypatch):
    """A `text` block is what the `python` blocks since the last one print (... stands for anything)."""
    if page.name == "serving.md":
        pytest.skip("runs in test_saved_models, which makes the file it reads")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    printed = io.StringIO()
    for language, block in BLOCK.findall(page.read_text()):
        if language == "text":
            found, printed = printed.getvalue(), io.StringIO()
            same = doctest.OutputChecker().check_output(block, found, SAME)
            assert same, f"printed:\n{found}\nnot:\n{block}"
            continue
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(page), "exec", dont_inherit=True), namespace)


def test_contributing_quotes_the_source():
    quotes = QUOTE.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert len(quotes) >= 3
    for path, code in quotes:
        assert code in (ROOT / path).read_text(), f"CONTRIBUTING.md quotes {path}, which has changed"


def test_the_map_of_the_house_shows_what_is_there():
    """Every room, every file that the map names, and the first name that an answer gives in its file."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    src = ROOT / "src" / "krepes"
    rooms = {path.name for path in src.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(re.findall(r"[├└]── (\w+)/", text))
    named = {path for path in re.findall(r"[\w/]+\.(?:py|js)\b", text) if "/" in path}
    lost = [path for path in named if not (src / path).exists() and not (ROOT / path).exists()]
    assert not lost, f"CONTRIBUTING.md names {sorted(lost)}"
    answers = re.findall(r"^\| [^|]+\? \| `([\w/.]+\.py)` \| `([\w.]+)`", text, re.MULTILINE)
    assert len(answers) > 10
    for path, name in answers:
        defined = rf"(def|class) {name.split('.')[-1]}\b"
        assert re.search(defined, (src / path).read_text()), f"CONTRIBUTING.md: {name} is not in {path}"


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"],
    ids=lambda p: f"{p.parent.name}-{p.name}",
)
def test_scripts_that_a_page_names_are_there(page):
    """The page of benchmarks quoted two scripts that had been removed."""
    named = re.findall(r"\b(?:benchmarks|examples|tools|reproduction)/[a-z0-9_]+\.py\b", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for file, heading in LINK.findall(_prose(page)):
        if file in MADE:
            continue
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name} links to {file}"
        assert not heading or heading in _anchors(target), f"{page.name} links to {file}#{heading}"


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_behind_one_door():
    """Start, Learn, Look up, Understand: each page of the site is in the contents of just one of them."""
    doors = ["index", "learn", "look-up", "understand"]
    texts = [(ROOT / "docs" / f"{door}.md").read_text() for door in doors]
    trees = [
        tree for text in texts for tree in re.findall(r"```{toctree}\n:hidden:\n\n(.*?)```", text, re.DOTALL)
    ]
    listed = [name for tree in trees for name in tree.split()]
    written = {page.stem for page in PAGES[1:]} - {"index"}
    assert sorted(name for name in listed if "/" not in name and f"{name}.md" not in MADE) == sorted(written)


def test_every_source_named_in_a_docstring_is_in_the_references():
    listed = set(re.findall(r"\*\*\[([a-z]+)\]\*\*", (ROOT / "docs" / "references.md").read_text()))
    # On the command line brackets are colours.
    files = [file for file in (ROOT / "src").rglob("*.py") if "cli" not in file.parts]
    named = {key for file in files for key in _keys(file)}
    assert {"krepes", "esser", "epperly", "keerthi"} <= named
    assert named <= listed, f"not in docs/references.md: {sorted(named - listed)}"


def _keys(file: Path) -> set[str]:
    """Keys such as [esser, Thm. 3] in the docstrings of a file."""
    tree = ast.parse(file.read_text())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    return {
        part.split(",")[0].strip() for text in texts for keys in KEY.findall(text) for part in keys.split(";")
    }


@pytest.mark.full
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example, tmp_path):
    result = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
