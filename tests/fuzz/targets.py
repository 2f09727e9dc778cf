"""All targets, and which public names none of them covers."""

from __future__ import annotations

import importlib

from fuzz import (  # noqa: F401  (they register their targets)
    alignment_targets,
    bound_targets,
    data_targets,
    embedding_targets,
    evaluation_targets,
    explain_targets,
    machine_targets,
    part_targets,
    prediction_targets,
    reconstruction_targets,
    structured_kernel_targets,
)
from fuzz.target import TARGETS

__all__ = ["TARGETS", "uncovered"]

PACKAGES = (
    "",
    "alignment",
    "clustering",
    "evaluation",
    "explain",
    "kernels",
    "landmarks",
    "losses",
    "machines",
)
PACKAGES += ("networks", "preprocessing", "report", "solvers", "sources", "views")

# Not called by users: what a loss or a solver sees, bases of classes, and what others hand over.
INNER = {
    "Batch",
    "Batches",
    "CallableLoss",
    "DirectionLoss",
    "ForeignLoss",
    "Logits",
    "Loss",
    "MomentForms",
    "MomentLoss",
    "NystromMap",
}
INNER |= {
    "Statistics",
    "Callback",
    "ClosedForm",
    "FullBatch",
    "MomentDescent",
    "SGD",
    "Solution",
    "Solver",
    "WORK",
    "__version__",
}
INNER |= {
    "CoordinateProduct",
}
INNER |= {"Budget", "Cells"}  # a clock; machine_targets.py
INNER |= {"Chain", "PerRow"}  # misbehaving.py
INNER |= {"Filter", "InputSpace", "Normalize", "GivenModule", "ResNet", "file_digest", "n_parameters"}


def uncovered() -> list[str]:
    """Public names that no target names."""
    covered = {name for target in TARGETS.values() for name in target.covers} | INNER
    modules = [importlib.import_module(f"krepes.{name}".rstrip(".")) for name in PACKAGES]
    return [
        f"{module.__name__}.{name}" for module in modules for name in module.__all__ if name not in covered
    ]
