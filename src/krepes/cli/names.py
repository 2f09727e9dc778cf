"""What may be given by name, and the defaults, read from the source text: without importing torch.

A class is found by the line `name = "..."` in its body, exactly what `krepes.base.components.named` finds after
importing everything; a test compares the two.
"""

from __future__ import annotations

import ast
import difflib
import re
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent
_DECLARATION = re.compile(r'^    name(?:: [^=\n]+)? = "(\w+)"', re.MULTILINE)


@cache
def declared_names(package: str) -> tuple[str, ...]:
    """The names that the classes of a subpackage declare, such as those of all kernels."""
    folder = _PACKAGE / package
    files = sorted([*folder.glob("*.py"), *folder.glob("*/solver.py")])  # a solver may be a package
    return tuple(sorted(name for file in files for name in _DECLARATION.findall(file.read_text("utf-8"))))


@cache
def estimator_defaults() -> dict[str, Any]:
    """The default arguments of KernelEmbedding."""
    tree = ast.parse((_PACKAGE / "embedding.py").read_text("utf-8"))
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "KernelEmbedding")
    (init,) = (node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    args = init.args
    defaults = dict(zip([arg.arg for arg in args.args[-len(args.defaults) :]], args.defaults))
    defaults |= {arg.arg: value for arg, value in zip(args.kwonlyargs, args.kw_defaults) if value is not None}
    return {name: ast.literal_eval(value) for name, value in defaults.items()}


def listed(package: str, *others: str) -> str:
    """The choices for a help text."""
    return ", ".join([*others, *declared_names(package)])


def check_name(value: str, package: str, *others: str) -> str:
    """A name in its declared spelling, or an error that lists the names there are."""
    key = value.replace("-", "_").lower()
    choices = [*others, *declared_names(package)]
    if key in choices:
        return key
    close = difflib.get_close_matches(key, choices, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ValueError(f"{value!r} is not known.{hint} Choose from: {', '.join(choices)}.")
