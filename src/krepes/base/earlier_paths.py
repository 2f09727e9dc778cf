"""Module paths of earlier versions, which still import and say where things are now."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from krepes.base.caller_warning import warn


class EarlierModule(ModuleType):
    """A module that has moved: its attributes come from its new place, with a FutureWarning."""

    now: str  # its path in this version

    def __init__(self, name: str, now: str):
        super().__init__(name, f"Now {now}.")
        self.now = now

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system asks for these
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(import_module(self.now), name)
        warn(
            f"{self.__name__} is now {self.now}; the old path will be removed in a later version.",
            FutureWarning,
        )
        return found


def keep_paths(package: str, moved: Mapping[str, str]) -> None:
    """Let modules of a package be imported by their earlier names; {"sketch": "similarity.sketched_cka"}.

    A module that left the package is given by its whole path, "krepes....".
    Call it at the end of the package: a function that has the name of an earlier module stays what the package holds.
    """
    for name, now in moved.items():
        path = f"{package}.{name}"
        now = now if now.startswith("krepes.") else f"{package}.{now}"
        module = sys.modules.setdefault(path, EarlierModule(path, now))
        vars(sys.modules[package]).setdefault(name, module)
