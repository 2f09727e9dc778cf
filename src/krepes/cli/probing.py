"""What `krepes evaluate` measures: representation, kernel PCA and raw features of the rows that a protocol needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.reporting import Bars
from krepes.cli.memory_needed import check_rows_memory, left_out_as_sparse
from krepes.cli.terminal import line
from krepes.evaluation import LabelCurve, Protocol, ProtocolResult, Verdict, baseline_estimators, verdict
from krepes.evaluation.comparison.baselines import is_kernel_pca, same_kernel_pca
from krepes.evaluation.comparison.label_curve import curve_of, usable_counts
from krepes.evaluation.comparison.prediction_scores import FLOORS
from krepes.evaluation.comparison.verdict import OURS, PCA, RAW
from krepes.labelled import LabelledRows

if TYPE_CHECKING:
    from krepes.cli.commands.evaluate import Protocolled
    from krepes.embedding import KernelEmbedding
    from krepes.sources import Rows, Source

_BATCH_ROWS = 16_384
_SLOW = 10_000_000  # labels x columns x classes: gradient boosting takes a minute for each draw
PROBE_WORDS = {"linear": "linear probe", "knn": "nearest neighbours", "ridge": "ridge probe"}


@dataclass(frozen=True)
class Evaluated:
    """Results by what was probed and how, the representation first; the verdict; the curve, where one was wanted."""

    results: dict[str, ProtocolResult]
    verdict: Verdict
    curve: LabelCurve | None
    few: Verdict | None  # with the fewest labels of the curve
    notes: list[str]


def probe_all(
    model: KernelEmbedding, dataset: LabelledRows, plan: Protocol, wanted: Protocolled, seed: int
) -> Evaluated:
    """Everything that was asked for, on the same draws; the first probe judges."""
    counts = wanted.counts()
    if counts:
        usable_counts(counts, plan.n_labels)  # wrong numbers are seen before the work
    probes: dict[str, dict[str, Any]] = {"ridge": {}}
    if plan.task == "classification":
        probes = {"linear": {"classifier": wanted.classifier}} | ({"knn": {}} if wanted.knn else {})
    once = plan.distinct()
    floor = once.floor(wanted.scoring)  # so is a scorer that does not fit
    features = gather(model, dataset, plan.rows, wanted)
    notes: list[str] = []
    by_probe = _probed(once, features, probes, wanted)
    first = next(iter(by_probe.values()))
    if wanted.baselines and RAW in features:
        first |= _baselines(once, features[RAW], wanted, notes)
    results = {_row_name(name, probe): r for probe, found in by_probe.items() for name, r in found.items()}
    curve = None
    if counts:
        curve = _curve(plan, features, probes, wanted, counts, seed, notes)
    few = None if curve is None else verdict(curve.at(curve.counts[0]))
    notes = [note for result in results.values() for note in result.notes] + notes
    notes += [] if curve is None else curve.notes
    whole = results | {FLOORS[plan.task]: floor}
    return Evaluated(whole, verdict(first, floor), curve, few, list(dict.fromkeys(notes)))


def _row_name(name: str, probe: str) -> str:
    return f"{name}, {PROBE_WORDS[probe]}" if name in (OURS, PCA, RAW) else name


def _probed(
    plan: Protocol,
    features: dict[str, np.ndarray],
    probes: dict[str, dict[str, Any]],
    wanted: Protocolled,
) -> dict[str, dict[str, ProtocolResult]]:
    """Results by probe and by representation."""
    shown = {name: Z for name, Z in features.items() if name != RAW or not wanted.no_raw}
    found: dict[str, dict[str, ProtocolResult]] = {}
    with Bars().stage("Probing", len(shown) * len(probes) * len(plan.draws), unit="fits") as stage:
        for probe, options in probes.items():
            found[probe] = {
                name: plan.run(Z, probe, lambda _: stage.advance(1), wanted.scoring, **options)
                for name, Z in shown.items()
            }
    return found


def _baselines(
    plan: Protocol, X: np.ndarray, wanted: Protocolled, notes: list[str]
) -> dict[str, ProtocolResult]:
    """Other methods on the raw features; one that cannot be used here is named in a note."""
    if plan.n_labels * X.shape[1] * len(plan.labels.classes) > _SLOW:
        line(
            f"Baselines with {plan.n_labels:,} labels and {X.shape[1]:,} columns take minutes for each of "
            f"{len(plan.draws)} draws; --label-fraction or --repeats 1 makes them faster.",
            style="dim",
        )
    estimators = baseline_estimators(plan.task, plan.n_labels)
    found = {}
    with Bars().stage("Baselines", len(estimators) * len(plan.draws), unit="fits") as stage:
        for name, estimator in estimators.items():
            stage.describe(f"Baselines, {name}")
            try:
                found[name] = plan.run(
                    X, "estimator", lambda _: stage.advance(1), wanted.scoring, estimator=estimator
                )
            except ValueError as error:
                notes.append(f"{name} was left out: {error}".rstrip("."))
    return found


def _curve(
    plan: Protocol,
    features: dict[str, np.ndarray],
    probes: dict[str, dict[str, Any]],
    wanted: Protocolled,
    counts: list[int],
    seed: int,
    notes: list[str],
) -> LabelCurve:
    """The judging probe and the baselines with each number of labels."""
    judge = next(iter(probes))

    def run(smaller: Protocol) -> dict[str, ProtocolResult]:
        parts = {name: Z[np.searchsorted(plan.rows, smaller.rows)] for name, Z in features.items()}
        found = _probed(smaller, parts, {judge: probes[judge]}, wanted)[judge]
        beside = wanted.baselines and RAW in parts
        return found | (_baselines(smaller, parts[RAW], wanted, notes) if beside else {})

    return curve_of(plan, counts, run, seed)


def gather(
    model: KernelEmbedding, dataset: LabelledRows, rows: np.ndarray, wanted: Protocolled
) -> dict[str, np.ndarray]:
    """The representation, kernel PCA, and the features before the kernel, of some rows of a data set."""
    from krepes.base.rows import number_columns

    space = model.space_
    raw = not wanted.no_raw or wanted.baselines
    pca = not wanted.no_pca and not is_kernel_pca(model)
    too_wide = left_out_as_sparse(space, len(rows)) if raw else None
    if too_wide is not None:
        line(too_wide, style="dim")
        raw = False
    width = len(model.intercept_) * (1 + pca) + (space.width if raw else 0)
    leave = [option for option, given in (("--no-raw", raw), ("--no-pca", pca)) if given]
    advice = "Use fewer labels (--label-fraction)" + (f", or {' and '.join(leave)}." if leave else ".")
    check_rows_memory(len(rows), width, advice)
    models = {OURS: model} | ({PCA: same_kernel_pca(model, _training(dataset), verbose=1)} if pca else {})
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*models, *([RAW] if raw else []))}
    with Bars().stage("Transforming", len(rows)) as stage:
        for batch in wanted_rows(dataset.sources, rows):
            for name, fitted in models.items():
                found[name].append(fitted.transform(batch))
            if raw:
                found[RAW].append(number_columns(space.inputs.tensor(batch, space.dtype)))
            stage.advance(len(found[OURS][-1]))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _training(dataset: LabelledRows) -> Source:
    """The training rows, with a label or without; all rows where test rows are drawn at random."""
    from krepes.sources.row_subset import subset

    source = dataset.sources[0]
    rows = None if dataset.train is None else np.flatnonzero(dataset.train[: source.n_rows])
    return source if rows is None or len(rows) == source.n_rows else subset(source, rows)


def wanted_rows(sources: list[Source], rows: np.ndarray) -> Iterator[Rows]:
    """The rows at sorted indices into all sources, in batches."""
    from krepes.base.rows import count_rows, take_rows

    offset = 0
    for source in sources:
        here = rows[(rows >= offset) & (rows < offset + source.n_rows)] - offset
        offset += source.n_rows
        if source.random_access:
            for start in range(0, len(here), _BATCH_ROWS):
                yield source.take(here[start : start + _BATCH_ROWS])
            continue
        for first, batch in source.batches(_BATCH_ROWS):
            low, high = np.searchsorted(here, [first, first + count_rows(batch)])
            if low < high:
                yield take_rows(batch, here[low:high] - first)
