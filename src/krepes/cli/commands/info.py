"""`krepes info`: what a model file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krepes.cli import options
from krepes.cli.command import command

if TYPE_CHECKING:
    from krepes.one_pass import OnePassEstimator

_PARTS = {
    "landmarks": "landmarks (rows of the training data)",
    "A": "coefficients A",
    "gamma": "intercept",
    "sums": "sums over rows, and kept rows of the training data if there are any",
    "solution": "coefficients, and what predictions need besides",
    "targets": "targets",
    "spread": "scale of the components",
    "change": "scale of the components",
    "F": "Nyström factors F",
    "eigenvalues": "Nyström factors F",
    "moments": "moments",
    "groups": "sums by group",
    "rows_seen": "row numbers",
    "input_space": "preprocessing",
    "kernel": "kernel",
    "kernel_probe": "kernel",
    "views": "views",
    "loss": "loss",
    "landmark_indices": "landmark row numbers",
}


@command
def info(model: options.Model, verbose: options.Verbose = False) -> dict[str, Any]:
    """Show what a model is, which columns it uses, and what its file holds."""
    from krepes.cli.opening import check_exists

    check_exists(model)
    from krepes import load
    from krepes.base.files import readable_bytes
    from krepes.base.model_file import read, sizes
    from krepes.cli.describe import column_roles, console, facts, line, simple_table

    fitted = load(model, device="cpu")
    header, _ = read(model)
    out, size = console(), model.stat().st_size
    written = f"krepes {header['version']}, format {header['format']}"
    file = {"file": f"{model}, {readable_bytes(size)}", "written by": written}
    words, summary, ability, held = _about(fitted)
    out.print(facts(file | words))
    encoder = fitted.input_space_.encoder
    if encoder is not None:
        out.print(column_roles(encoder, None if verbose else 60))
    parts = _parts(sizes(model))
    table = simple_table("part", "size", right=("size",))
    for part, taken in parts.items():
        table.add_row(part, readable_bytes(taken))
    out.print(table)
    line(ability)
    line(held, style="yellow")
    about = {"file": str(model), "bytes": size, "version": header["version"], "format": header["format"]}
    return about | summary | {"parts": parts}


def _about(model: OnePassEstimator) -> tuple[dict[str, str], dict[str, Any], str, str]:
    """What a model is for people and for programs, what can be done with it, and which rows its file holds."""
    from krepes import KernelEmbedding
    from krepes.cli.describe import model_facts, model_summary
    from krepes.cli.describe_machine import kept_words, machine_summary
    from krepes.machines import GaussianProcessClassifier, NoveltyDetector
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.report.machine_card import detector_facts, machine_facts

    if isinstance(model, NoveltyDetector):
        from krepes.cli import describe_detector as about

        ability = (
            "Without sums: it detects, but cannot be continued or merged."
            if model.total_ is None
            else "With sums: it can be continued and merged."
        )
        return detector_facts(model), about.detector_summary(model), ability, about.held_words(model)
    if isinstance(model, LabelledMachine):
        ability = "Without sums: it predicts, but cannot be continued or merged."
        if isinstance(model, GaussianProcessClassifier):
            ability = "It predicts; it reads the rows several times, and cannot be continued or merged."
        elif model.total_ is not None:
            forgets = isinstance(model, RidgeMachine)
            ability = (
                f"With sums: it can be continued{', merged, and forget rows' if forgets else ' and merged'}."
            )
        return machine_facts(model), machine_summary(model), ability, kept_words(model)
    assert isinstance(model, KernelEmbedding)
    if model.moments_ is None:
        why = "Trained on samples" if model.solver_.data == "samples" else "Without moments"
        ability = f"{why}: it transforms, but cannot be refitted, continued or merged."
    else:
        ability = "With moments: it can be refitted with another loss or width, continued and merged, without the data."
    held = f"Its {len(model.landmarks_):,} landmarks are rows of the training data"
    return model_facts(model), model_summary(model), ability, f"{held}: share the file as you would the data."


def _parts(tensors: dict[str, int]) -> dict[str, int]:
    """Bytes by part, largest first."""
    parts: dict[str, int] = {}
    for name, size in tensors.items():
        part = _PARTS.get(name.lstrip(".").split(".")[0], "other")
        parts[part] = parts.get(part, 0) + size
    return dict(sorted(parts.items(), key=lambda item: -item[1]))
