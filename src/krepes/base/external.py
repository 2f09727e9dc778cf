"""The place of something that a model file does not hold."""

from __future__ import annotations

from typing import NoReturn


class External:
    """The place of something that a file does not hold: a user's function, the path of another file."""

    def __init__(self, description: str):
        self.description = description

    def __call__(self, *_: object) -> NoReturn:
        raise ValueError(
            f"This model needs {self.description}, which its file cannot hold. Give a kernel with krepes.load(path, "
            "kernel=...), a loss with model.set_params(loss=...)."
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
