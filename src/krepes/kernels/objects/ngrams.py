"""Words, or groups of characters, that texts have in common.

    c_u(x) = w_u * (how often u occurs in x),      w_u = 1,   or   1 + log((1 + n) / (1 + n_u))   for "tfidf"

n texts were learned from, and u occurs in n_u of them: rare words say more than common ones. Cost O(|x|) per length.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.base import clone

from krepes.base.validation import check_choice, check_count
from krepes.kernels.objects.object_kernel import CountKernel, Counts

WORD = re.compile(r"\w+")


@dataclass(eq=False, repr=False)
class NGrams(CountKernel):
    """Words or characters in a row that two texts have in common; with normalisation, the cosine of their counts.

    Parameters
    ----------
    analyzer : "word" or "char", default="word"
        What is counted. Words are runs of letters, digits and underscores.
    lengths : (int, int), default=(1, 1)
        Shortest and longest group: (1, 2) counts words and pairs of neighbouring words.
    weighting : "count", "binary" or "tfidf", default="count"
        "binary" asks only whether a group occurs. "tfidf" gives groups that few texts have more weight.
    lowercase : bool, default=True
        Whether capital and small letters are the same.
    weights : dict of float by group, default=None
        The weights of "tfidf"; that of "" is for groups that are not listed. None learns them from the data.
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    >>> NGrams(normalize=False)(["To be, or not to be"], ["Be it so", "Or not?"])        # be: 2 * 1; or, not: 1 + 1
    tensor([[2., 2.]], dtype=torch.float64)
    """

    name = "ngrams"
    known_elsewhere_as = ("bag_of_words", "tfidf")
    expects = "texts"

    analyzer: str = "word"
    lengths: Sequence[int] = (1, 1)
    weighting: str = "count"
    lowercase: bool = True
    weights: dict[str, float] | None = None
    normalize: bool = True

    def check_parameters(self) -> None:
        super().check_parameters()
        self._check_groups()
        if self.weighting == "tfidf" and not self.weights:
            raise ValueError(
                "weighting='tfidf' depends on data: call kernel.fitted(X) first (estimators do this for you)."
            )

    def _check_groups(self) -> None:
        check_choice("analyzer", self.analyzer, ("word", "char"))
        check_choice("weighting", self.weighting, ("count", "binary", "tfidf"))
        if not isinstance(self.lengths, list | tuple) or len(self.lengths) != 2:
            raise ValueError(f"lengths={self.lengths!r:.60}: expected two integers, such as (1, 2).")
        check_count("lengths[0]", self.lengths[0])
        check_count("lengths[1]", self.lengths[1], least=self.lengths[0])

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> NGrams:
        if self.weighting != "tfidf" or self.weights:
            return self
        self._check_groups()
        texts = self.read_all(X)
        occurs_in = Counter(group for text in texts for group in dict.fromkeys(self.groups(text)))
        n = len(texts)
        occurs_in[""] = 0  # any group that these texts do not have
        weights = {group: 1 + math.log((1 + n) / (1 + count)) for group, count in occurs_in.items()}
        return clone(self).set_params(weights=weights)

    def groups(self, text: str) -> list[str]:
        """All groups of words or characters in a text."""
        text = text.lower() if self.lowercase else text
        units: Sequence[str] = WORD.findall(text) if self.analyzer == "word" else text
        joint = " " if self.analyzer == "word" else ""
        shortest, longest = self.lengths
        return [
            joint.join(units[i : i + length])
            for length in range(shortest, min(longest, len(units)) + 1)
            for i in range(len(units) - length + 1)
        ]

    def counts(self, x: str) -> Counts:
        found = Counter(self.groups(x))
        if self.weighting == "binary":
            return dict.fromkeys(found, 1)
        if self.weighting == "count" or not self.weights:
            return found
        weights, other = self.weights, self.weights.get("", 1.0)
        return {group: count * weights.get(group, other) for group, count in found.items()}
