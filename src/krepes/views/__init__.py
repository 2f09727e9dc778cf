"""Views: augmented versions of rows, and their exact expectations. One file per family."""

from krepes.views.chain import Chain
from krepes.views.colour import Colour
from krepes.views.image import Image
from krepes.views.per_row import PerRow
from krepes.views.series import TimeSeries
from krepes.views.sparse import Sparse
from krepes.views.tabular import Tabular
from krepes.views.views import NoViews, Paired, Views

__all__ = [
    "Chain",
    "Colour",
    "Image",
    "NoViews",
    "Paired",
    "PerRow",
    "Sparse",
    "Tabular",
    "TimeSeries",
    "Views",
]
