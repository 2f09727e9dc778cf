"""`krepes train --task detect`: learn what is normal, without labels."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from krepes.machines import NoveltyDetector
    from krepes.sources import Source


@dataclass(frozen=True)
class DetectorFit:
    """What `krepes train` was asked for, where its task is to detect."""

    source: Source
    data: Path
    output: Path
    split: str | None
    n_train: int | None
    sample_weight: str | None
    groups: str | None
    checkpoint: Path | None
    no_sums: bool
    overwrite: bool

    def run(self, machine: NoveltyDetector) -> dict[str, Any]:
        """Fit, save, and say what was learned."""
        import numpy as np

        from krepes.cli.describe import show_columns
        from krepes.cli.describe_detector import detector_summary
        from krepes.labelled import training_rows, weights_of

        self._check_memory(machine)
        weight = None
        if self.sample_weight is not None:
            weight = weights_of(self.source, self.data, self.sample_weight)
        chosen = training_rows(self.source, self.data, self.split, self.n_train)
        if chosen is not None and not chosen.all():
            weight = np.where(chosen, 1.0 if weight is None else weight, 0.0)
        start = time.perf_counter()
        space = machine.prepare(self.source, sample_weight=weight)
        show_columns(space.inputs)
        machine.fit(
            self.source, groups=self.groups, sample_weight=weight, checkpoint=self.checkpoint, space=space
        )
        machine.verbose = 0
        machine.save(self.output, sums=not self.no_sums, overwrite=self.overwrite)
        seconds = time.perf_counter() - start
        following = f"krepes detect {self.output} ROWS -o FILE"
        self._show(machine, seconds, following)
        facts = {
            "data": self.source.describe(),
            "model": str(self.output),
            "bytes": self.output.stat().st_size,
            "seconds": seconds,
            "task": "detect",
        }
        return facts | detector_summary(machine) | {"next": following}

    def _check_memory(self, machine: NoveltyDetector) -> None:
        """Refuse what memory or disk cannot hold."""
        from krepes.base.files import check_writable
        from krepes.cli.memory_needed import check_fit_memory, model_bytes, row_width
        from krepes.machines.labelled_machine import AUTO_LANDMARKS

        n, asked = self.source.n_rows, machine.n_landmarks
        m = min(n, AUTO_LANDMARKS if asked == "auto" else n if asked is None else int(asked))
        check_fit_memory(m, 1)
        d = row_width(self.source)
        kept = 0 if self.no_sums else 8 * min(n, machine.n_kept) * d
        check_writable(self.output, self.overwrite, model_bytes(m, d, 0, 1 if self.no_sums else 3) + kept)

    def _show(self, machine: NoveltyDetector, seconds: float, following: str) -> None:
        from krepes.base.files import readable_bytes
        from krepes.cli.describe import console, facts, line
        from krepes.cli.describe_detector import held_words
        from krepes.report.machine_card import detector_facts

        saved = f"{self.output}, {readable_bytes(self.output.stat().st_size)}"
        console().print(facts(detector_facts(machine) | {"time": f"{seconds:.1f} s", "saved": saved}))
        line(held_words(machine))
        line(f"Next: {following}")


def detector_from(
    parameters: Mapping[str, Any],
    own: Mapping[str, Any],
    changes: dict[str, Any],
    seed: int,
) -> NoveltyDetector:
    """A detector from the options of `krepes train`; an error where one is for labels."""
    from krepes.cli.option_signatures import parameter
    from krepes.machines import NoveltyDetector

    known = set(NoveltyDetector._get_param_names())
    for name, value in parameters.items():
        row = parameter("KernelRidgeClassifier", name)
        if name not in known and value != row.default:
            raise typer.BadParameter(
                f"{row.option} is for labels; --task detect learns without any, what rows usually are."
            )
    shared = {name: value for name, value in parameters.items() if name in known}
    machine = NoveltyDetector(**shared, **own, random_state=seed, verbose=1)
    return machine.set_params(**changes) if changes else machine
