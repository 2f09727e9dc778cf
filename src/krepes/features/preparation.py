"""From rows to a feature space: everything fixed before the pass over all rows, in at most one scan of the data.

sample of rows -> kernel -> views -> landmarks -> space
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from krepes.base.blocks import Placement
from krepes.base.components import named
from krepes.base.reporting import Progress, warn
from krepes.base.rows import dense_remedy
from krepes.engines import Engine
from krepes.features.choices import (
    LandmarkChoice,
    LandmarkRows,
    all_points,
    check_all_points,
    choose_views,
    with_views,
)
from krepes.features.fit_data import FitData, RowReader
from krepes.features.fit_warnings import allowed_candidates, warn_of_cost, warn_of_data, warn_of_shape
from krepes.features.image_kernels import choose_by_views
from krepes.features.kernel_choice import ChooseKernel, ChosenKernel
from krepes.features.space import FeatureSpace
from krepes.kernels import Automatic, Kernel, Patches, as_kernel
from krepes.kernels.automatic import is_precomputed
from krepes.kernels.checking.faults import check_candidates, title
from krepes.kernels.kernel import is_of_user
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates, Preprocess, Sampling, is_series, prepare_inputs
from krepes.sources import Source, open_objects, open_source
from krepes.sources.arrays.kernel_matrices import fitted_matrix
from krepes.sources.row_subset import subset
from krepes.views import Image, Tabular, TimeSeries, Views

FEW_VIEWS = 2  # of patches, which cost much (COIL-20, 100 labels: 81 % with 2 views, 80 % with 6)


@dataclass(frozen=True, eq=False)
class Spec:
    """What a model asks of its feature space.

    Attributes
    ----------
    kernel : Kernel
        Where another one is chosen from the data, it only says whether rows may be shifted.
    landmarks, n_landmarks, views, preprocess : as an estimator takes them
        Without a number of landmarks, all points are landmarks.
    views_needed : int
        Views of a sample that will be compared: 1 or 2.
    prefer : ndarray of row indices, optional
        Rows that become landmarks before any other, such as labelled ones.
    decompose : bool
        Whether features are needed. Without them, K_mm is not decomposed, and `rank` is m.
    """

    kernel: Kernel
    landmarks: Any = "pivoted_cholesky"
    n_landmarks: int | None = 1000
    views: str | Views | None = None
    views_needed: int = 1
    preprocess: Preprocess = "auto"
    prefer: np.ndarray | None = None
    decompose: bool = True


@dataclass(frozen=True, eq=False)
class Run:
    """Where passes over the data run, in which precision, and with which random draws."""

    engine: Engine
    progress: Progress
    placement: Placement
    seed: int


def opener_of(kernel: object, space: FeatureSpace | None = None) -> Callable[[Any], Source]:
    """Choose how to open training data: like the given space, else as the kernel requires."""
    if space is None:
        kernels: Any = kernel if isinstance(kernel, list | tuple) else [kernel]
        if is_precomputed(kernel):
            return fitted_matrix
        return open_objects if any(as_kernel(k).only_objects for k in kernels) else open_source
    if not isinstance(space, FeatureSpace):
        raise TypeError(
            f"space= takes a FeatureSpace, from prepare(X) or another model's space_; got {type(space).__name__}."
        )
    return fitted_matrix if space.inputs.kind == "precomputed" else space.inputs.open


def prepare(data: FitData, spec: Spec, run: Run, choose_kernel: ChooseKernel | None = None) -> FeatureSpace:
    """Fix the space. Rows of weight zero are not used; positives and negatives are views."""
    rule = LandmarkChoice(spec.landmarks, spec.n_landmarks)
    generator = torch.Generator().manual_seed(run.seed)
    views = _chosen_views(data, spec, rule)
    choose = choose_kernel or partial(_kernel, spec=spec, views=views, run=run, generator=generator)
    inputs, candidates = _sample(data, spec, run, rule, views)
    found = choose(candidates, inputs)
    own_views = isinstance(spec.views, str) and spec.views == "auto"
    if isinstance(found.kernel, Patches) and own_views and views.n_views > FEW_VIEWS:
        views = clone(views).set_params(n_views=FEW_VIEWS)
    negative = _checked(found.kernel, candidates, rule, data.n_rows, views.n_views)
    views = views.fitted(candidates.rows, generator, groups=inputs.groups)
    views.check_repeats(candidates.rows)
    with run.progress.stage("Landmarks"):
        reader = data.reader(inputs, run.placement)
        landmarks = _landmarks(reader, candidates, found.kernel, views, rule, spec, run, generator)
        space = FeatureSpace.of(
            inputs, found.kernel, views, landmarks, run.placement, run.seed, decompose=spec.decompose
        )
    if rule.everything:
        space = replace(space, exact_views=False)
    elif negative is not None and not space.features.indefinite:  # otherwise there was a warning already
        milder = (
            " It is between the landmarks that were chosen, which the model uses." if spec.decompose else ""
        )
        warn(f"{title(found.kernel)} is not positive semi-definite: {negative}.{milder}")
    return replace(space, metric=found.metric, choice=found.choice)


def _chosen_views(data: FitData, spec: Spec, rule: LandmarkChoice) -> Views:
    """The views that suit the data."""
    source = data.sources[0]
    if source.n_rows < 2:
        raise ValueError(f"Found {source.n_rows} sample(s); a minimum of 2 samples is required to fit.")
    chosen = choose_views(
        spec.views,
        source,
        spec.views_needed,
        data.paired,
        few=rule.everything,
        series=is_series(spec.preprocess),
        tokens=spec.kernel.takes_tokens,
    )
    if rule.everything:
        check_all_points(data, chosen)
    return chosen


def _sample(
    data: FitData, spec: Spec, run: Run, rule: LandmarkChoice, views: Views
) -> tuple[InputSpace, Candidates]:
    """The input space, and a uniform sample of the rows in it."""
    kernel, counting = spec.kernel, data.counting_rows
    source = data.sources[0] if counting is None else subset(data.sources[0], counting)
    size = allowed_candidates(source, rule.n_candidates, rule.n_landmarks)
    inputs, candidates = prepare_inputs(
        source,
        spec.preprocess,
        Sampling(size, run.seed, run.engine, run.progress),
        run.placement,
        may_shift=kernel.shift_invariant and views.shift_equivariant,
        table_columns=kernel.table_columns,
        tokens=kernel.takes_tokens,
    )
    if isinstance(spec.preprocess, str) and spec.preprocess == "auto":
        warn_of_shape(inputs, kernel, spec.views)
    if inputs.kind == "sparse" and not kernel.takes_sparse:
        able = sorted(name for name, each in named(Kernel).items() if each.takes_sparse is True)
        raise ValueError(
            f"{title(kernel)} has no form for sparse rows. Kernels that have: {', '.join(able)}. "
            f"{dense_remedy(inputs.shape[0])}"
        )
    if inputs.raw_ and isinstance(views, Tabular | Image | TimeSeries):
        raise ValueError(
            f"There is no augmentation for columns that are compared as they are ({', '.join(inputs.raw_)}): give "
            "positives= (a second view of every row), or use loss='kernel_pca'."
        )
    if counting is not None:
        candidates = replace(candidates, indices=counting[candidates.indices])
    return inputs, candidates


def _kernel(
    candidates: Candidates,
    inputs: InputSpace,
    spec: Spec,
    views: Views,
    run: Run,
    generator: torch.Generator,
) -> ChosenKernel:
    """The kernel that was asked for, with its parameters from the sample."""
    suited = spec.kernel.suited(inputs.layout)
    as_given = spec.preprocess is None or spec.preprocess == "none"
    warn_of_data(candidates, inputs, suited, as_given)
    fitted = suited.fitted(candidates.rows, generator)
    if isinstance(spec.kernel, Automatic) and isinstance(spec.kernel.lengthscale, str):
        with run.progress.stage("Choosing the kernel"):
            return choose_by_views(fitted, candidates, inputs, views, run.seed)
    return ChosenKernel(fitted)


def _checked(
    kernel: Kernel, candidates: Candidates, rule: LandmarkChoice, n_rows: int, n_views: int
) -> str | None:
    """Warn of a fit that is too long; a proof that the kernel is not positive semi-definite, if there is one."""
    if not rule.everything and rule.selector is not None:
        m = rule.n_landmarks
        to_choose = rule.selector.values_to_choose(len(candidates.rows), m)
        warn_of_cost(candidates.rows, kernel, n_rows, n_views, m, to_choose)
    return check_candidates(kernel, candidates.rows, candidates.indices) if is_of_user(kernel) else None


def _landmarks(
    reader: RowReader,
    candidates: Candidates,
    kernel: Kernel,
    views: Views,
    rule: LandmarkChoice,
    spec: Spec,
    run: Run,
    generator: torch.Generator,
) -> LandmarkRows:
    """Landmarks by the rule, as the user gave them, or all points."""
    if rule.everything:
        return all_points(reader, views, run.seed)
    if rule.selector is None:
        return rule.points(reader)
    preferred = _preferred(spec.prefer, reader, rule.n_candidates, run.seed)
    chosen = rule.choose(candidates, preferred, kernel, generator)
    p = rule.views_per_landmark
    if p == 1:
        return chosen
    pairs = reader.take(chosen.rows).inputs[1:] if reader.data.paired and chosen.rows is not None else ()
    return with_views(chosen, views, p, run.seed, pairs)


def _preferred(rows: np.ndarray | None, reader: RowReader, most: int, seed: int) -> Candidates | None:
    """The preferred rows, or a uniform sample of very many."""
    if rows is None or not len(rows):
        return None
    rows = np.unique(rows)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    return Candidates(reader.take(rows).inputs[0], rows)
