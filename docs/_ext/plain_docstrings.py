"""Docstrings of krepes are plain text with formulas: make reStructuredText of them before numpydoc reads them.

|C - I|_F^2, kernel_, x*y    ->    the same characters, not a substitution, a link, an emphasis
an indented block            ->    a literal block
[esser, Thm. 3]              ->    a link to the list of references
"""

from __future__ import annotations

import re
from typing import Any

FIELDS = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Other Parameters", "Methods"}
ENTRY = re.compile(r"^(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)( : .*)?$")
CODE = re.compile(r"(``.+?``|`[^`]+`)")
SPECIAL = re.compile(r"([*|\\])|(?<=\w)(_)(?!\w)|(?<!\w)(_)(?=\w)")


def escaped(line: str) -> str:
    """The line with every character meaning itself, but in backticks."""
    parts = CODE.split(line)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = "``" + part.strip("`") + "``"
        else:
            parts[i] = SPECIAL.sub(lambda found: "\\" + found[0], part)
    return "".join(parts)


def as_restructured(lines: list[str]) -> list[str]:
    """A whole docstring."""
    section, result, literal = "", [], False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if following and set(following) == {"-"} and line.strip():
            section, literal = line.strip(), False
            result.append(line)
            continue
        if line and set(line) == {"-"}:
            result.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        if section == "Examples":
            result.append(line if is_code(lines, i) else escaped(line))
        elif section in FIELDS:
            entry = ENTRY.match(line) if indent == 0 else None
            result.append(entry[1] + escaped(entry[2] or "") if entry else escaped(line))
        else:
            if line.strip() and indent and not literal and (not result or not result[-1].strip()):
                result += ["::", ""]
                literal = True
            elif line.strip() and not indent:
                literal = False
            result.append(line if literal else escaped(line))
    return result


def is_code(lines: list[str], i: int) -> bool:
    """Whether line i belongs to a doctest: since the last blank line there is a prompt."""
    start = i
    while start >= 0 and lines[start].strip():
        if lines[start].lstrip().startswith(">>>"):
            return True
        start -= 1
    return False


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if name.startswith("krepes"):
        lines[:] = as_restructured(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process, priority=100)  # numpydoc comes at 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
