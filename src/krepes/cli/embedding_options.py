"""The options of a representation, which `krepes fit` and `krepes tune` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from krepes.cli.options import DATA, MODEL, Override, count, option
from krepes.cli.parameters import estimator, given_values, overrides

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding


@dataclass(frozen=True)
class EmbeddingOptions:
    """The parameters of a KernelEmbedding that have options; --set has all others."""

    panel: ClassVar[str] = MODEL

    n_components: Annotated[
        str | None, option("Width. By default 64; auto chooses it.", metavar="N", callback=count)
    ] = None
    n_landmarks: Annotated[
        str | None,
        option("Rows to compare with. By default 1000; all is an exact fit.", metavar="N", callback=count),
    ] = None
    kernel: Annotated[str | None, option("How rows are compared: gaussian, laplacian, matern, ...")] = None
    loss: Annotated[str | None, option("spectral_contrastive, vicreg, kernel_pca, simclr, ...")] = None
    views: Annotated[str | None, option("Changes that keep the meaning: image, tabular, none, ...")] = None
    epochs: Annotated[int | None, option("The most passes of a loss of samples.", min=1)] = None
    preprocess: Annotated[
        str | None, option("How rows are prepared: auto, table, normalize, series, none.", panel=DATA)
    ] = None
    override: Override = field(default_factory=list)

    def parameters(self) -> dict[str, Any]:
        """What was given, without `preprocess`."""
        own = given_values(
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
