"""Entries of a state, by name."""

from __future__ import annotations

from typing import Any

from krepes.base.codec import StateReader


def check_entries(what: str, state: dict[str, Any], hints: dict[str, Any], optional: set[str]) -> None:
    """Refuse a dictionary that lacks an entry, or whose entries are of another type than declared."""
    missing = [name for name in hints if name not in state and name not in optional]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}.")
    for name, hint in hints.items():
        if name in state:
            StateReader().read(state[name], hint, f"{what}: {name}")
