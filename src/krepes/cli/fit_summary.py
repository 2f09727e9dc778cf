"""What `krepes fit` tells at the end, and what it warns of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from krepes.base.caller_warning import warn

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor

    from krepes.embedding import KernelEmbedding

_SCALES_APART = 100.0


def warn_of_scales(landmarks: Tensor) -> None:
    """An array is used as it is; say so where one column would drown the others."""
    deviations = landmarks.double().std(0)
    deviations = deviations[deviations > 0]
    apart = (deviations.max() / deviations.median()).item() if len(deviations) > 1 else 1.0
    if apart > _SCALES_APART:
        warn(
            f"Some columns vary {apart:,.0f} times as much as others and will dominate every distance. "
            "--preprocess table standardises the columns.",
        )


def show_summary(model: KernelEmbedding, output: Path, data: Path, seconds: float, out: Console) -> None:
    """What was fitted, where it is, and what to do next."""
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import facts, model_facts

    size = readable_bytes(output.stat().st_size)
    out.print(facts(model_facts(model) | {"time": f"{seconds:.1f} s", "saved": f"{output}, {size}"}))
    landmarks = f"{len(model.landmarks_):,}"
    out.print(
        f"The file holds its {landmarks} landmarks, which are rows of the data: share it as you would the data."
    )
    out.print(f"Next: {_next_command(model, output, data)}", markup=False, highlight=False, soft_wrap=True)


def _next_command(model: KernelEmbedding, output: Path, data: Path) -> str:
    """Evaluate where labels are at hand, else transform."""
    from krepes.cli.data import is_npz, npz_names

    encoder = model.input_space_.encoder
    folder = data.is_dir() and model.input_space_.kind == "images"
    if (encoder is not None and encoder.label) or (is_npz(data) and "y" in npz_names(data)) or folder:
        return f"krepes evaluate {output} {data}"
    return f"krepes transform {output} {data} -o features.parquet"
