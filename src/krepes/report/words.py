"""Parts of a model in words: for its page, and for the command line."""

from __future__ import annotations

import inspect

from krepes.base.components import Component
from krepes.embedding import KernelEmbedding
from krepes.preprocessing import InputSpace

VIEWS_WITHOUT_NAME = {"NoViews": "none", "Paired": "given in pairs"}
LONGEST = 40  # characters of a parameter


def component_words(part: Component, hidden: tuple[str, ...] = ()) -> str:
    """A kernel, loss, view or selector: its name, and the parameters that differ from their defaults.

    >>> from krepes.kernels import Gaussian
    >>> component_words(Gaussian(2.16956))
    'gaussian (lengthscale 2.17)'
    """
    name = getattr(part, "name", None)
    if name is None:
        return repr(part) if hasattr(part, "get_params") else type(part).__name__
    defaults = {key: p.default for key, p in inspect.signature(type(part)).parameters.items()}
    shown = [
        f"{key} {_short(value)}"
        for key, value in part.get_params(deep=False).items()
        if key not in hidden and (repr(value) != repr(defaults.get(key)) or _is_lengthscale(key, value))
    ]
    return f"{name} ({', '.join(shown)})" if shown else str(name)


def _is_lengthscale(key: str, value: object) -> bool:
    return key == "lengthscale" and isinstance(value, float)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = str(value) if isinstance(value, str | int | bool) or value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def input_words(space: InputSpace) -> str:
    """What a row is before the kernel sees it."""
    if space.encoder is not None:
        used, features = len(space.encoder.used_columns_), space.encoder.n_features_out_
        return f"table, {used:,} of {space.encoder.n_features_in_:,} columns used, {features:,} features"
    if space.kind == "images":
        channels = f" × {space.shape[2]} channels" if len(space.shape) > 2 else ", grey"
        return f"images, {space.shape[0]} × {space.shape[1]} pixels{channels}"
    return f"{space.kind}, {space.n_features:,} features" if space.n_features else space.kind


def views_words(model: KernelEmbedding) -> str:
    """The augmentation, and whether it was integrated or sampled."""
    if getattr(model.views_, "name", None) is None:
        return VIEWS_WITHOUT_NAME.get(type(model.views_).__name__, "none")
    how = "expectation in closed form" if model.exact_views_ else f"{model.views_.n_views} sampled per row"
    return f"{component_words(model.views_, hidden=('n_views',))}, {how}"


def steps_words(model: KernelEmbedding) -> str:
    """How far a fitted model's solver went, to be added to its name; nothing for closed forms."""
    if model.n_iter_ <= 1:
        return ""
    if model.solver_.data != "samples":
        return f", {model.n_iter_:,} iterations"
    earlier = model.best_epoch_ not in (None, model.n_iter_)
    return f", {model.n_iter_:,} epochs" + (f", epoch {model.best_epoch_:,} taken" if earlier else "")
