"""What a model should not be used for, found on the rows shown: groups it does not cover, classes it does not separate.

    low(g)   = share of the rows of group g whose coverage is below LOW_COVERAGE
    own(a)   = share of the nearest rows of class a that are of class a;  by chance, the share of a among all others
    next(a)  = the other class that is found there most often

A group is listed where low(g) is at least LOW_SHARE and twice that of all rows, a class where own(a) is below half, or
less than a quarter of the way from chance to 1. Groups of fewer than FEWEST rows are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from krepes.report.maps import NearestRows
from krepes.report.model_card import LOW_COVERAGE
from krepes.report.shown_rows import ShownColumn

FEWEST = 20
LOW_SHARE = 0.1
HALF, QUARTER = 0.5, 0.25
MOST = 5  # lines of a kind


def not_for(
    coverage: np.ndarray, groups: Sequence[ShownColumn], labels: ShownColumn | None, nearest: NearestRows
) -> list[str]:
    """Sentences, the worst first; none where nothing was found."""
    kinds = (_uncovered(coverage, groups), [] if labels is None else _mixed(labels, nearest))
    found = []
    for lines in kinds:
        found += lines[:MOST]
        if len(lines) > MOST:
            found.append(f"... and {len(lines) - MOST:,} more of this kind.")
    return found


def _uncovered(coverage: np.ndarray, groups: Sequence[ShownColumn]) -> list[str]:
    low = coverage < LOW_COVERAGE
    every = low.mean()
    if every >= HALF:
        return [
            f"Rows like these: {100 * every:.0f} % of them are unlike every landmark (coverage below {LOW_COVERAGE}). "
            "More landmarks, or a wider kernel, may help."
        ]
    found: list[tuple[float, str]] = []
    for column in groups:
        for code, level in enumerate(column.levels or []):
            inside = column.values == code
            share, n = low[inside].mean() if inside.any() else 0.0, int(inside.sum())
            if n >= FEWEST and share >= LOW_SHARE and share >= 2 * every:
                words = f"{100 * share:.0f} % of its {n:,} rows are unlike every landmark"
                found.append(
                    (share, f"Rows with {column.name} {level}: {words} (all rows: {100 * every:.0f} %).")
                )
    return [text for _, text in sorted(found, key=lambda each: -each[0])]


def _mixed(labels: ShownColumn, nearest: NearestRows) -> list[str]:
    """Classes whose nearest rows are mostly of other classes."""
    codes, levels = labels.values, labels.levels or []
    known = codes >= 0
    if nearest.rows.shape[1] == 0 or len(np.unique(codes[known])) < 2:
        return []
    found: list[tuple[float, str]] = []
    for a, level in enumerate(levels):
        inside = codes == a
        n = int(inside.sum())
        around = codes[nearest.rows[inside]]
        around = around[around >= 0]
        if n < FEWEST or len(around) == 0:
            continue
        shares = np.bincount(around, minlength=len(levels)) / len(around)
        chance = (n - 1) / (known.sum() - 1)
        own = shares[a]
        if own >= HALF and (own - chance) >= QUARTER * (1 - chance):
            continue
        shares[a] = -1
        other = int(shares.argmax())
        beside = f"{100 * own:.0f} % are {level} too ({100 * chance:.0f} % by chance)"
        text = (
            f"Telling {labels.name} {level} from {levels[other]}: of the rows nearest to {level}, {beside} and "
            f"{100 * shares[other]:.0f} % are {levels[other]}."
        )
        found.append((float(own), text))
    return [text for _, text in sorted(found, key=lambda each: each[0])]
