"""Links to files of the repository, which readers of the plain Markdown follow, lead to pages of the site."""

from __future__ import annotations

import re
from typing import Any

PAGES = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples": "gallery/index.rst",
}
LINK = re.compile(r"\]\((?:\.\./)?([^)#\s:]+?)/?(#[^)]*)?\)")


def page_of(found: re.Match) -> str:
    """A link as the site has it: to a page, an example of the gallery, or as it was."""
    path, heading = found[1].removeprefix("docs/"), found[2] or ""
    example = re.fullmatch(r"examples/(\w+)\.py", path)
    if example:
        return f"](gallery/{example[1]}.rst)"
    return f"]({PAGES.get(path, path)}{heading})"


def rewrite(app: Any, name: str, source: list[str]) -> None:
    source[0] = LINK.sub(page_of, source[0])


def rewrite_included(app: Any, path: Any, name: str, source: list[str]) -> None:
    rewrite(app, name, source)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", rewrite)
    app.connect("include-read", rewrite_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
