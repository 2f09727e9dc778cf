"""Components: the parts a model is made of, and the one place where a name becomes an object.

A kernel, a landmark rule, a view, a loss and a solver are Components. Each is a scikit-learn
`BaseEstimator` (arguments stored verbatim, no work in `__init__`, constructible without arguments), so
`clone`, `GridSearchCV` and `loss__redundancy=...` work. Each final class declares the `name` under which
it may be given as a string; tests, the command line and the documentation find it through that name.

A Component's attributes are JSON values, numpy arrays, torch tensors or other Components, and nothing
else: that is all a model file has to know about it. Attributes whose name starts with an underscore are
scratch and are not saved. `External` stands for what a file cannot hold.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NoReturn, TypeVar

from sklearn.base import BaseEstimator

C = TypeVar("C", bound="Component")
K = TypeVar("K")


class Component(BaseEstimator):
    """A named, parameter-aware part of a model."""

    name: ClassVar[str | None] = None
    paths: ClassVar[tuple[str, ...]] = ()  # attributes that name files or folders: no model file holds them
    not_finite: ClassVar[tuple[str, ...]] = ()  # attributes whose arrays may hold NaN
    known_elsewhere_as: ClassVar[tuple[str, ...]] = ()  # names that other libraries use, for a hint

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if vars(cls).get("name") is not None:
            _check_name_is_free(cls)

    def check_restored(self) -> None:
        """Refuse attributes, read from a file and each of its declared type, that do not fit together."""

    def stand_in(self) -> Component:
        """What a model file keeps of an object of a user's class; an error if the model needs the object itself."""
        raise TypeError(
            f"Cannot store {type(self).__name__}: it is not a class of krepes. A user's kernel can be stored as a "
            "function, krepes.kernels.Custom(function), which has to be given again at load."
        )


def subclasses(kind: type[K]) -> Iterator[type[K]]:
    """Every class below `kind`, however deep, in order of definition."""
    for cls in kind.__subclasses__():
        yield cls
        yield from subclasses(cls)


def named(kind: type[C]) -> dict[str, type[C]]:
    """The classes of a kind that may be given by name, as {name: class}."""
    return {cls.name: cls for cls in subclasses(kind) if "name" in vars(cls) and cls.name is not None}


def _check_name_is_free(cls: type[Component]) -> None:
    """Refuse a second class of a family under one name. A class that is defined again replaces its former self."""
    family: type[Component] = next(base for base in reversed(cls.__mro__) if Component in base.__bases__)
    for other in subclasses(family):
        same_place = (other.__module__, other.__qualname__) == (cls.__module__, cls.__qualname__)
        if vars(other).get("name") == cls.name and not same_place:
            name, cls.name = cls.name, None  # the class object lives on for a while, but not under this name
            raise TypeError(
                f"Two classes are named {name!r} among the subclasses of {family.__name__}: "
                f"{_place(other)} and {_place(cls)}. Give one of them another `name`."
            )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def resolve(kind: type[C], value: object) -> C:
    """Turn a name, a class or an object into an object of the given kind.

    >>> from krepes.kernels import Kernel
    >>> resolve(Kernel, "gaussian")
    Gaussian()
    """
    if isinstance(value, kind):
        return value
    if inspect.isclass(value) and issubclass(value, kind):
        return value()
    choices = named(kind)
    if isinstance(value, str):
        key = value.replace("-", "_").lower()
        if key in choices:
            return choices[key]()
        raise ValueError(
            f"{value!r} is not the name of {_with_article(kind)}.{_hint(key, kind)} "
            f"Known names: {', '.join(sorted(choices))}."
        )
    raise TypeError(
        f"Expected {_with_article(kind)} object or one of the names {', '.join(sorted(choices))}; "
        f"got {type(value).__name__}: {value!r:.80}."
    )


def _hint(key: str, kind: type[Component]) -> str:
    """A sentence that says what was probably meant; empty if no name is close."""
    choices = named(kind)
    for name, cls in choices.items():
        if key in cls.known_elsewhere_as:
            return f" It is called {name!r} here."
    for cls in set(subclasses(kind)) - set(choices.values()):
        if cls.__name__.lower() == key.replace("_", ""):
            return f" It has no name for short: give {_place(cls)}(...) itself."
    close = difflib.get_close_matches(key, choices, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _with_article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def named_parts(
    estimator: BaseEstimator, kinds: Mapping[str, type[Component]], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Parameters for `set_params`, so that it takes `loss__redundancy=...` if the loss was given by name.

    `kinds` maps the estimator's parameters to kinds of components. A nested parameter of a component that was given by
    name comes with the object that the name stands for.
    """
    found = dict(params)
    for key in params:
        part, _, nested = key.partition("__")
        if nested and part in kinds:
            value = found.get(part, getattr(estimator, part))
            if value is None:
                raise ValueError(f"{key}: {part} is None and has no parameters; set {part} first.")
            if isinstance(value, str):
                found[part] = resolve(kinds[part], value)
    return found


class External:
    """The place of something that a file does not hold: a user's function, the path of another file."""

    def __init__(self, description: str):
        self.description = description

    def __call__(self, *_: object) -> NoReturn:
        raise ValueError(
            f"This model needs {self.description}, which its file cannot hold. Give a kernel with krepes.load(path, "
            "kernel=...), a loss with model.set_params(loss=...). Views are needed to add rows only: fit again for "
            "that."
        )

    def __fspath__(self) -> NoReturn:
        raise ValueError(
            f"This model was made with {self.description}, whose path is not kept in a model file. Give it again "
            "with set_params, such as model.set_params(kernel__network__weights=path)."
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, External) and other.description == self.description

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.description}, not in the file>"
