"""The options of a representation, which `krepes fit` and `krepes tune` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli.options import DATA, MODEL, Override, count, option
from krepes.cli.parameters import estimator, given, overrides

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding

KERNELS = "auto, gaussian, laplacian, matern, arc_cosine, empirical_ntk, ..."
LOSSES = "spectral_contrastive, barlow_twins, vicreg, kernel_pca, simclr, byol, ..."
VIEWS = "auto, image, series, sparse, tabular, none"


@dataclass(frozen=True)
class EmbeddingOptions:
    """The parameters of a KernelEmbedding that have options; --set has all others."""

    n_components: Annotated[
        str | None,
        option(
            "Width of the representation. By default 64; auto chooses it.",
            metavar="N",
            panel=MODEL,
            callback=count,
        ),
    ] = None
    n_landmarks: Annotated[
        str | None,
        option(
            "Rows that all others are compared with. By default 1000; all makes an exact fit of few rows.",
            metavar="N",
            panel=MODEL,
            callback=count,
        ),
    ] = None
    kernel: Annotated[str | None, option(f"How rows are compared: {KERNELS}", panel=MODEL)] = None
    loss: Annotated[str | None, option(f"What is learned: {LOSSES}", panel=MODEL)] = None
    views: Annotated[
        str | None, option(f"Small changes that keep the meaning of a row: {VIEWS}", panel=MODEL)
    ] = None
    epochs: Annotated[
        int | None,
        option("The most passes of a loss that is trained on samples.", metavar="N", panel=MODEL, min=1),
    ] = None
    preprocess: Annotated[
        str | None,
        option(
            "How rows are prepared: auto; table and normalize standardise columns and channels; series; none.",
            panel=DATA,
        ),
    ] = None
    override: Override = field(default_factory=list)

    def parameters(self) -> dict[str, Any]:
        """What was given, without `preprocess`."""
        own = given(
            n_components=self.n_components,
            n_landmarks=self.n_landmarks,
            kernel=self.kernel,
            loss=self.loss,
            views=self.views,
            solver__max_epochs=self.epochs,
        )
        return own | overrides(self.override)

    def model(self, parameters: dict[str, Any], **others: Any) -> KernelEmbedding:
        """The model that the parameters make."""
        from krepes.embedding import KernelEmbedding

        try:
            return estimator(KernelEmbedding, parameters, **others)
        except typer.BadParameter as error:
            if "solver" in parameters or not any(name.startswith("solver__") for name in parameters):
                raise
            raise typer.BadParameter(f"{error.message} To train on samples, add --set solver=sgd.") from None
