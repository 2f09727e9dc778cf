"""What comes along with rows: labels and weights; and rows that are objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.strategies import SEEDS, often

WORDS = ["one", "two", "three", "", "éa", "a" * 50, "two"]


def objects() -> SearchStrategy[list[Any]]:
    """Lists of words, and of what is not a word."""
    words = st.lists(st.sampled_from(WORDS), min_size=4, max_size=12)
    mixed = st.lists(st.sampled_from([*WORDS, None, 3, {"a": 1}, (1, 2)]), max_size=8)
    return often((3, words), (1, mixed))


LABELS: dict[str, list[Any]] = {
    "codes": [0, 1, 2],
    "words": ["a", "b", "c"],
    "truth": [True, False],
    "one class": [1],
    "numbers": [0.0, 1.0, 2.0],
    "fractions": [0.5, 1.25, 1e150],
    "missing words": ["a", "b", None],
    "missing numbers": [0.0, 1.0, float("nan")],
    "all missing": [None],
    "not finite": [0.0, float("inf")],
    "mixed": ["a", 1, 2.5],
    "objects": [(1, 2), (3,)],
    "negative": [-1, 7, 10**12],
}


@st.composite
def labels(draw: DrawFn, n: int, sane: bool = False) -> Any:
    """Labels of n rows; unless `sane`, of another number, with gaps, or no labels at all."""
    values = ["codes", "words", "truth", "numbers"] if sane else sorted(LABELS)
    chosen = LABELS[draw(st.sampled_from(values))]
    extra = 0 if sane else draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]))
    rng = np.random.default_rng(draw(SEEDS))
    found = [chosen[i] for i in rng.integers(0, len(chosen), max(0, n + extra))]
    forms = (
        ["list", "array"]
        if sane
        else ["list", "array", "array", "series", "column", "tensor", "nothing", "categories"]
    )
    form = draw(st.sampled_from(forms))
    if form == "array" or (form == "tensor" and chosen is not LABELS["codes"]):
        return np.array(found, dtype=object if chosen is LABELS["objects"] or None in chosen else None)
    if form == "tensor":
        return torch.tensor(found)
    if form == "series":
        return pd.Series(found)
    if form == "categories":
        return pd.Series(found).astype(str).astype("category")
    if form == "column":
        return [[value] for value in found]
    return None if form == "nothing" else found


def weights(n: int) -> SearchStrategy[Any]:
    """Sample weights: usual ones, zeros, and what cannot be a weight."""
    values = st.sampled_from([0.0, 1.0, 2.5, 1.0, 1.0, 1e-300, 1e300, -1.0, float("nan"), float("inf")])
    sane = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n)
    odd = st.lists(values, min_size=n, max_size=n)
    wrong = st.one_of(st.lists(values, max_size=n + 1), st.just("heavy"), st.just([[1.0]] * n))
    return often((5, sane), (2, odd), (1, wrong))
