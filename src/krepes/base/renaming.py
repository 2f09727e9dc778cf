"""Old names of attributes and of constructor parameters: they still work, and say what they are called now."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from krepes.base.caller_warning import warn

T = TypeVar("T")


def renamed(old: str, new: str) -> property:
    """A property under the old name of an attribute."""

    def get(self: Any) -> Any:
        warn(f"{type(self).__name__}.{old} is called {new} now; the old name will be removed.", FutureWarning)
        return getattr(self, new)

    return property(get, doc=f"The old name of `{new}`.")


def old_parameters(**names: str) -> Callable[[type[T]], type[T]]:
    """A class whose constructor also takes parameters by their old names: old=new."""

    def decorated(cls: type[T]) -> type[T]:
        made = cls.__init__

        @functools.wraps(made)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            for old in names.keys() & kwargs.keys():
                warn(
                    f"{cls.__name__}({old}=...) is called {names[old]} now; the old name will be removed.",
                    FutureWarning,
                )
                kwargs[names[old]] = kwargs.pop(old)
            made(self, *args, **kwargs)

        cls.__init__ = init  # type: ignore[method-assign]
        return cls

    return decorated
