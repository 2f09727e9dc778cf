"""What the model is, line by line: the facts at the top of the page."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from krepes._version import __version__
from krepes.base.validation import generator_of
from krepes.embedding import KernelEmbedding
from krepes.evaluation import ProbeResult, ProtocolResult, linear_probe
from krepes.evaluation.probe_inputs import validation_split
from krepes.explain.expansion import n_landmarks
from krepes.report.facts import component_words, input_words, steps_words, views_words
from krepes.report.shown_rows import ShownColumn, ShownRows

LOW_COVERAGE = 0.1
TEST_SHARE = 0.2
PROBE_ROWS = 20  # fewer labelled rows are not probed

Probe = ProbeResult | ProtocolResult  # what linear_probe, knn_probe and probe_protocol give


def model_card(
    model: KernelEmbedding,
    shown: ShownRows,
    coverage: np.ndarray,
    rank: str,
    facts: Mapping[str, Any],
) -> list[tuple[str, str]]:
    """(name, value) in the order in which they are shown; `rank` is the effective one, `facts` come last."""
    m, low = n_landmarks(model), int((coverage < LOW_COVERAGE).sum())
    views = model.views_per_landmark_
    chosen = model.landmarks if isinstance(model.landmarks, str) else "given"
    if hasattr(model.landmarks, "select"):
        chosen = component_words(model.landmarks)
    card = {
        "Data": shown.description,
        "Rows shown": f"{len(shown.rows):,}{f'{shown.of_all}, a random sample' if shown.of_all else ''}",
        "Fitted on": f"{model.n_samples_seen_:,} rows; {input_words(model.input_space_)}",
        "Kernel": component_words(model.kernel_),
        "Loss": component_words(model.loss_),
        "Views": views_words(model),
        "Solver": component_words(model.solver_) + steps_words(model),
        "Regularization": f"{model.regularization:g}",
        "Landmarks": f"{m:,} ({chosen})" + (f", {views} views each" if views > 1 else ""),
        "Rank of the features": f"{model.rank_:,}",
        "Components": f"{len(model.intercept_):,}",
        "Effective rank": rank,
        "Coverage": f"median {np.median(coverage):.3f}; {low:,} rows below {LOW_COVERAGE}",
        **{str(name): None if value is None else str(value) for name, value in facts.items()},
        "Versions": _versions(),
    }
    return [(name, value) for name, value in card.items() if value]


def subtitle(model: KernelEmbedding) -> str:
    """The model in one line."""
    kernel, loss = (
        getattr(part, "name", None) or type(part).__name__ for part in (model.kernel_, model.loss_)
    )
    return f"A kernel representation: {str(loss).replace('_', ' ')} loss, {str(kernel).replace('_', ' ')} kernel."


def tiles(
    model: KernelEmbedding, shown: ShownRows, coverage: np.ndarray, rank: str, probe: Probe | None
) -> list[tuple[str, str]]:
    """(name, number) of what one looks at first."""
    found = [
        (f"rows{shown.of_all}", f"{len(shown.rows):,}"),
        ("landmarks", f"{n_landmarks(model):,}"),
        ("components", f"{len(model.intercept_):,}"),
        ("effective rank", rank),
        ("median coverage", f"{np.median(coverage):.3f}"),
    ]
    return found if probe is None else [*found, ("probe accuracy", f"{100 * probe.accuracy:.1f} %")]


def _versions() -> str:
    import sklearn
    import torch

    others = {"numpy": np.__version__, "torch": torch.__version__, "scikit-learn": sklearn.__version__}
    listed = ", ".join(f"{name} {version}" for name, version in others.items())
    return f"krepes {__version__}; Python {platform.python_version()}, {listed}"


def probed(
    given: Probe | None, Z: np.ndarray, labels: ShownColumn | None, random_state: int
) -> tuple[Probe | None, str | None]:
    """The given probe, or a linear one on four fifths of the rows shown, tested on the others; and its words."""
    if given is not None:
        return given, probe_words(given)
    if labels is None:
        return None, None
    codes = labels.values
    there = np.flatnonzero(codes >= 0)
    if len(there) < PROBE_ROWS or len(np.unique(codes[there])) < 2:
        return None, "none: it needs labels of two classes"
    generator = generator_of(random_state)
    fit, test = (there[part] for part in validation_split(codes[there], TEST_SHARE, generator))
    if len(test) == 0 or len(np.unique(codes[fit])) < 2:
        return None, "none: too few labels"
    names = np.array(labels.levels, dtype=object)
    result = linear_probe(Z[fit], names[codes[fit]], Z[test], names[codes[test]], random_state=random_state)
    return (
        result,
        f"{_accuracies(result)}, fitted on {len(fit):,} of the rows shown and tested on the other {len(test):,}",
    )


def _accuracies(probe: ProbeResult) -> str:
    return f"accuracy {100 * probe.accuracy:.1f} % (balanced {100 * probe.balanced_accuracy:.1f} %)"


def probe_words(probe: Probe) -> str:
    """A given result of `linear_probe`, `knn_probe` or `probe_protocol` in words."""
    if isinstance(probe, ProtocolResult) and "r2" in probe.results[0].metrics:
        return f"R² {probe.words('r2')}, {probe.n_labels:,} labels, tested on {probe.n_test:,} rows"
    if isinstance(probe, ProtocolResult):
        return (
            f"accuracy {probe.words('accuracy')} (balanced {probe.words('balanced_accuracy')}), "
            f"{probe.probe}, {probe.n_labels:,} labels, tested on {probe.n_test:,} rows, {len(probe.results)} repeats"
        )
    if isinstance(probe, ProbeResult):
        return f"{_accuracies(probe)}, {probe.n_labels:,} labels, tested on {probe.n_test:,} rows"
    raise TypeError(
        f"probe= must be a result of linear_probe, knn_probe or probe_protocol; got {type(probe).__name__}."
    )
