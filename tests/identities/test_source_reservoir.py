"""The reservoir is a uniform sample, and the same one however the rows are read."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krepes.sources import open_source, reservoir, row_sampling
from krepes.sources.row_sampling import priorities, sampled_indices
from refusals import refuses


def naive_sample(n: int, size: int, seed: int) -> list[int]:
    """Sort all rows by their priority; the first `size`, in the order of the rows."""
    draws = priorities(seed, 0, n).tolist()
    return sorted(sorted(range(n), key=lambda i: (draws[i], i))[:size])


@given(
    n=st.integers(1, 5000), size=st.integers(1, 300), seed=st.integers(0, 2**63), scan=st.integers(1, 5000)
)
def test_any_cutting_gives_the_rows_with_the_smallest_priorities(n, size, seed, scan):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sampling, "SCAN_ROWS", scan)
        assert sampled_indices(n, size, seed).tolist() == naive_sample(n, size, seed)


@given(n=st.integers(1, 3000), size=st.integers(1, 500), smaller=st.integers(1, 500))
def test_samples_nest(n, size, smaller):
    """The sample of a smaller size is part of the larger one."""
    smaller = min(size, smaller)
    assert set(sampled_indices(n, smaller, 5)) <= set(sampled_indices(n, size, 5))


@given(start=st.integers(0, 10**7), length=st.integers(0, 3000))
def test_priorities_are_one_stream(start, length):
    whole = priorities(1, start - start % 1024, start + length + 10)
    assert (priorities(1, start, start + length) == whole[start % 1024 :][:length]).all()


def test_every_row_is_as_likely_as_any_other():
    """Over 4000 seeds each of 40 rows is in a sample of 10 a quarter of the time, within 4 standard errors."""
    draws, source = 4000, open_source(np.arange(40.0)[:, None])
    counts = Counter(i for seed in range(draws) for i in reservoir(source, 10, seed)[1].tolist())
    error = 4 * (draws * 0.25 * 0.75) ** 0.5
    assert all(abs(counts[i] - draws / 4) < error for i in range(40))
    pairs = Counter(
        (0 in s, 39 in s) for s in (set(reservoir(source, 10, seed)[1].tolist()) for seed in range(draws))
    )
    together = 10 * 9 / (40 * 39)  # of a sample without replacement
    assert abs(pairs[True, True] - draws * together) < 4 * (draws * together * (1 - together)) ** 0.5


def test_small_sources_are_taken_whole():
    rows, indices = reservoir(open_source(["a", "b"]), 10, seed=0)
    assert rows == ["a", "b"]
    assert indices.tolist() == [0, 1]


@pytest.mark.parametrize(("size", "seed"), [(0, 0), (-1, 0), (1, -1)])
def test_bad_sizes_and_seeds_are_refused(size, seed):
    with refuses(ValueError):
        reservoir(open_source(["a", "b"]), size, seed)
