"""Which views a model has: what the user named, or what suits the data."""

from __future__ import annotations

from krepes.base.components import resolve
from krepes.sources import Source
from krepes.views.given import NoViews, Paired
from krepes.views.image import Image
from krepes.views.series import TimeSeries
from krepes.views.sparse import Sparse
from krepes.views.tabular import Tabular
from krepes.views.views import Views

POINTS, FEW_POINTS = 40_000, 4_000  # views of all rows together, at most, where a row has more than two

TOKENS_REPLACED = 0.15  # the share of tokens that masked language models change [devlin]


def choose_views(
    views: str | Views | None,
    source: Source,
    views_needed: int,
    paired: bool,
    few: bool = False,
    series: bool = False,
    tokens: bool = False,
) -> Views:
    """The views object for a source: `views="auto"` picks by its kind and size, pairs need none.

    `few`: because every view becomes a landmark. `series`: the rows are read as time series. `tokens`: the
    kernel reads whole numbers as names of tokens, so views replace some of them and add no noise.
    """
    if source.kind == "precomputed" and (paired or views_needed > 1):
        raise ValueError(
            "A kernel matrix has no views of its rows: use loss='kernel_pca', or a kernel of rows in the place of "
            "kernel='precomputed'."
        )
    if paired:
        if views_needed < 2:
            raise ValueError(
                "positives= were given, but this loss looks at one view per sample: leave them out."
            )
        return Paired()
    if isinstance(views, str) and views == "auto":
        if views_needed < 2:
            return NoViews()
        if source.kind == "objects" and not series:
            raise ValueError(
                "There is no augmentation for arbitrary objects: give positives= (a second view of every "
                "sample), or use loss='kernel_pca'."
            )
        n_views = views_of(source.n_rows, FEW_POINTS if few else POINTS)
        if series:
            return TimeSeries(n_views=n_views)
        if tokens and source.kind == "vectors" and holds_integers(source):
            return Tabular(noise=0.0, replace=TOKENS_REPLACED, n_views=n_views)
        if source.kind == "images":
            return Image(strength="auto", flip="auto", n_views=n_views)
        return Sparse(n_views=n_views) if source.kind == "sparse" else Tabular(n_views=n_views)
    if views is None or (isinstance(views, str) and views == "none"):
        if views_needed > 1:
            raise ValueError("This loss compares two views of a sample: give views= or positives=.")
        return NoViews()
    chosen = resolve(Views, views)
    if source.kind == "sparse" and isinstance(chosen, Tabular | Image):
        raise ValueError(
            f"{type(chosen).__name__} views change dense rows, and these are sparse: use views='sparse', which drops "
            "and replaces entries."
        )
    return chosen


def holds_integers(source: Source) -> bool:
    """Whether the rows of a source are integers."""
    dtype = getattr(next(source.batches(1))[1], "dtype", None)
    return str(dtype).removeprefix("torch.").startswith(("int", "uint"))


def views_of(n_rows: int, points: int = POINTS) -> int:
    """How many views a row has: more where rows are few, which estimates S_+ better, at little cost."""
    return min(8, max(2, points // n_rows))
