"""What users of krepes may rely on, as text: public names, their parameters, and the methods of estimators.

    python tests/public_names.py            # writes tests/fixtures/public_names.json anew

A name that goes, or a parameter that is renamed or loses its default, breaks users' code: see the policy in
CONTRIBUTING.md.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

import krepes

SNAPSHOT = Path(__file__).parent / "fixtures" / "public_names.json"
ROOMS = {"base", "cli"}  # the rooms of krepes that have no public names


def public_names() -> dict[str, Any]:
    """{full name: parameters} of what is in the `__all__` of krepes and its packages; of estimators, methods too.

    What several packages offer is described under its shortest name; the others refer to it.
    """
    packages = [krepes] + [
        importlib.import_module(f"krepes.{module.name}")
        for module in pkgutil.iter_modules(krepes.__path__)
        if module.name not in ROOMS and not module.name.startswith("_")
    ]
    found: dict[str, Any] = {}
    first: dict[int, str] = {}
    for package in packages:
        for name in sorted(getattr(package, "__all__", ())):
            value, full = getattr(package, name), f"{package.__name__}.{name}"
            known = first.setdefault(id(value), full) if callable(value) else full
            found[full] = f"is {known}" if known != full else described(value)
    return found


def described(value: Any) -> Any:
    """The parameters of a class or function; with the methods and documented attributes, if it is an estimator."""
    if not callable(value):
        return type(value).__name__
    if not (inspect.isclass(value) and issubclass(value, BaseEstimator) and hasattr(value, "fit")):
        return signature(value)
    methods = {
        name: signature(method)
        for name, method in inspect.getmembers(value, inspect.isfunction)
        if of_krepes(value, name)
    }
    return {"parameters": signature(value), "methods": methods, "attributes": attributes(value)}


def of_krepes(cls: type, name: str) -> bool:
    """Whether a member is public, and defined by krepes, not by scikit-learn."""
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return (
        not name.startswith("_") and not name.endswith("_request") and owner.__module__.startswith("krepes")
    )


def attributes(cls: type) -> list[str]:
    """The names under "Attributes" in the docstrings of an estimator and its bases in krepes."""
    named = set()
    for base in cls.__mro__:
        if base.__module__.startswith("krepes"):
            section = re.search(
                r"\n *Attributes\n *-+\n(.*?)(\n *\w+\n *-+\n|\Z)", inspect.cleandoc(base.__doc__ or ""), re.S
            )
            for line in re.findall(r"^([\w, ]+) : ", section[1] if section else "", re.M):
                named |= {name.strip() for name in line.split(",")}
    return sorted(named)


def signature(value: Any) -> str:
    """Parameters with their defaults, without annotations; nothing for what cannot be called."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in found.parameters.items()
        if name != "self"
    ]
    text = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(plain)))
    return re.sub(
        r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.9g}", text
    )  # numpy's last digits differ


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(public_names(), indent=1, sort_keys=True) + "\n")
