"""write_report: a fitted model and its rows as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from krepes.base.storage.files import check_writable
from krepes.base.validation import check_count
from krepes.embedding import KernelEmbedding
from krepes.evaluation import ProbeResult, ProtocolResult
from krepes.explain import Concept
from krepes.report.contents import Given, contents
from krepes.report.maps import check_map
from krepes.report.page import WrittenReport, map_page, write_page
from krepes.report.samples import read_samples
from krepes.report.shown_rows import extra_columns, label_column, open_rows

MAX_TOP = 50


def write_report(
    model: KernelEmbedding,
    X: Any,
    path: str | os.PathLike,
    *,
    labels: Any = None,
    columns: Sequence[str] | Mapping[str, ArrayLike] | None = None,
    concepts: Sequence[Concept] = (),
    n_top: int = 8,
    max_rows: int = 5000,
    samples: bool = True,
    title: str | None = None,
    probe: ProbeResult | ProtocolResult | None = None,
    facts: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    map: str | None = "tsne",
    random_state: int = 0,
) -> WrittenReport:
    """Write one HTML file that shows what a model has learned and explains every row by real examples.

    The file is self-contained and makes no network request. It contains real rows: everyone who opens it sees them.

    Parameters
    ----------
    model : KernelEmbedding, fitted
    X : rows, in any form that the model takes
        The training data or others. Landmarks have labels on the page only if they are rows of X.
    path : where to write
    labels : array of shape (n,), or {name: array}, default=None
        Classes to colour and filter by, and to probe. None or NaN is "no label".
    columns : list of names, or dict of name -> n values, default=None
        More to colour by: names of a table's columns, or values by name.
    concepts : sequence of Concept, fitted on this model
    n_top : int, default=8
        Landmarks shown for every row and direction.
    max_rows : int, default=5000
        If there are more rows, a random sample is shown, and the page says so.
    samples : bool, default=True
        False leaves out the rows and landmarks themselves: no thumbnails, no feature values, no texts. What remains
        are row numbers, places on the map, coverage, nearest rows and landmarks, contributions, labels if they are
        given, the names and scores of concepts, and the model card. `columns` holds values of rows and is refused then.
    title : str, default=None
    probe : result of linear_probe, knn_probe or probe_protocol on this representation, default=None
        For the model card, and its classes as directions. None computes a small one where labels are given.
    facts : dict, default=None
        More lines for the model card, such as {"Time to fit": "3.1 s"}.
    overwrite : bool, default=False
    map : "tsne", "umap", "pacmap" or "none", default="tsne"
        The map that keeps neighbours together: t-SNE, or UMAP or PaCMAP where they are installed. "none" or None leaves
        principal components, and with labels their discriminants.
    random_state : int, default=0
        Seed of the sample of rows, of the map and of the probe's split. The same arguments give the same file.

    Returns
    -------
    WrittenReport
        The path of the file. In a notebook it shows the page.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> model = KernelEmbedding(2, n_landmarks=10, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_report(model, X, f"{folder}/report.html", title="Three numbers")
    ...     "Three numbers" in written.read_text()
    True
    """
    check_is_fitted(model, "landmarks_")
    check_count("n_top", n_top)
    check_count("max_rows", max_rows)
    if n_top > MAX_TOP:
        raise ValueError(f"n_top={n_top}: a page shows at most {MAX_TOP} landmarks of a row.")
    if not samples and columns is not None:
        raise ValueError(
            "columns= shows values of real rows, which samples=False leaves out: give only one of them."
        )
    for concept in concepts:
        check_is_fitted(concept, "direction_")
        if len(concept.direction_) != len(model.intercept_):
            raise ValueError(
                f"The concept {concept.name!r} has {len(concept.direction_)} components and the model "
                f"{len(model.intercept_)}: fit it on this model."
            )
    map = "none" if map is None else map
    check_map(map)
    target = check_writable(path, overwrite)
    shown = open_rows(model, X, max_rows, random_state)
    heading = "Representation of the data" if title is None else str(title)
    own, of_landmarks = label_column(labels, shown)
    given = Given(own, of_landmarks, extra_columns(X, columns, shown), concepts, probe, facts, map)
    rows = read_samples(model, shown.source) if samples else None
    content = {"title": heading, **contents(model, shown, given, rows, n_top, random_state)}
    return write_page(map_page(heading, content), target, overwrite)
