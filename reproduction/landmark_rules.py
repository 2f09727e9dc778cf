"""Table 5: eight losses by three landmark rules, on MNIST  [krepes, Table 5]."""

from __future__ import annotations

from typing import Any

from krepes.embedding import KernelEmbedding
from krepes.landmarks import Leverage
from krepes.views import Image
from reproduction.published_tables import KERNEL_NOTE, SIZE_NOTE, Cell, Run, Table, solver_of

PUBLISHED = {
    "barlow_twins": (94.95, 97.41, 97.95),
    "vicreg": (90.18, 89.57, 89.69),
    "byol": (79.53, 84.68, 85.30),
    "simclr": (95.35, 98.90, 95.75),
    "spectral_contrastive": (94.22, 97.99, 98.09),
    "simple_contrastive": (88.67, 89.64, 89.34),
    "autoencoder": (96.42, 98.89, 98.60),
    "kernel_pca": (89.12, 97.62, 97.63),
}
DENOISING = "ours: autoencoder of views"
# Leverage scores take a solve with the candidates' n x n kernel: a few thousand candidates are what is affordable.
RULES: dict[str, Any] = {
    "uniform": "uniform",
    "k-means++": "kmeans_plus_plus",
    "leverage": Leverage(max_candidates=3000),
    "ours: pivoted Cholesky": "pivoted_cholesky",
}


def _cell(row: str, column: str, published: float | None = None) -> Cell:
    loss = "autoencoder" if row == DENOISING else row
    views = {"views": Image(n_views=4) if row == DENOISING else None} if loss == "autoencoder" else {}

    def model(run: Run) -> KernelEmbedding:
        given = {"solver": solver_of(loss, run), "landmarks": RULES[column]} | views
        return run.embedding("mnist", loss=loss, **given)

    return Cell(row, column, "mnist", model, published)


LANDMARK_RULES = Table(
    "table5",
    "Table 5: test accuracy on MNIST by loss and landmark rule",
    tuple(
        _cell(loss, column, published)
        for loss, row in PUBLISHED.items()
        for column, published in zip(RULES, (*row, None))
    )
    + tuple(_cell(DENOISING, column) for column in RULES),
    (
        KERNEL_NOTE,
        SIZE_NOTE,
        "Barlow Twins, VICReg, kernel PCA and both contrastive losses are solved from moments, not trained; leverage "
        "scores are those of 3000 candidate rows.",
        "The autoencoder of views encodes augmented views of an image and reconstructs the image itself (de-noising).",
    ),
)
