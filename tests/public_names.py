"""The public face of krepes as text: names, and what their parameters are called.

    python tests/public_names.py            # writes tests/fixtures/public_names.json anew

A name that goes, or a parameter that is renamed or loses its default, breaks users' code: see the policy in
CONTRIBUTING.md.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path

SNAPSHOT = Path(__file__).parent / "fixtures" / "public_names.json"
PACKAGES = (
    "krepes",
    "krepes.alignment",
    "krepes.clustering",
    "krepes.engines",
    "krepes.evaluation",
    "krepes.explain",
    "krepes.features",
    "krepes.kernels",
    "krepes.labelled",
    "krepes.landmarks",
    "krepes.losses",
    "krepes.machines",
    "krepes.moments",
    "krepes.networks",
    "krepes.preprocessing",
    "krepes.report",
    "krepes.results",
    "krepes.solvers",
    "krepes.sources",
    "krepes.streams",
    "krepes.tally",
    "krepes.views",
)


def signature(value: object) -> str:
    """Parameters with their defaults, without annotations; nothing for what cannot be called."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in found.parameters.items()
        if name != "self"
    ]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(plain)))


def public_names() -> dict[str, str]:
    """{full name: signature} of everything in the packages' `__all__`, and of the methods of their classes."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            full = f"{package}.{name}"
            found[full] = signature(value) if callable(value) else ""
            if inspect.isclass(value):
                found |= {f"{full}.{member}": text for member, text in _members(value)}
    return found


def _members(cls: type) -> list[tuple[str, str]]:
    """Public methods and properties that krepes defines."""
    members = []
    for name in sorted(dir(cls)):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not owner.__module__.startswith("krepes"):
            continue
        value = inspect.getattr_static(cls, name)
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if inspect.isfunction(value):
            members.append((name, signature(value)))
        elif isinstance(value, property):
            members.append((name, "property"))
    return members


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(public_names(), indent=0, sort_keys=True) + "\n")
