"""KernelAutoencoder: kernel machines that encode rows as points of a sphere and decode them again  [esser, Def. 3].

    rows -> FeatureSpace -> descent on the bottleneck of the landmarks -> one pass for the decoder -> model

Where all rows are landmarks this is the exact autoencoder: O(n^2 (n + d)) time for a step, O(n^2 + n d) memory. Else
the bottleneck is learned on n' rows, at most `max_rows`, O(n' m (d + h) + m^2 (m + d)) for a step, and the decoder on
all of them in one pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from krepes.autoencoder.decoder import Decoder, DecoderSums, Encoder, FittedBottleneck
from krepes.autoencoder.objective import BottleneckObjective, descend
from krepes.base.linalg import descending_eigh
from krepes.base.reporting import display, warn
from krepes.base.rows import REDUCE, Rows, dense
from krepes.base.storage.checkpoint import remove_checkpoint
from krepes.base.storage.codec import State, decode
from krepes.base.validation import as_matrix, check_count, check_number, is_integer
from krepes.features import FeatureSpace, FitData, Spec
from krepes.kernels import Kernel, as_kernel
from krepes.landmarks import LandmarkSelector
from krepes.landmarks.nystrom import NystromMap
from krepes.one_pass import OnePassEstimator
from krepes.regression.ridge_algebra import NormalSums
from krepes.tally import Fit, total
from krepes.tally.fit import check_checkpoint

EXACT_ROWS = 5000  # of which all may be landmarks: four n x n matrices of 200 MB each
SMALLEST_REGULARIZATION = 1e-6  # the decoder's kernel is singular where points of the bottleneck coincide
START_NOISE = 1e-4  # of the start's scale

OBJECTS = (
    "An autoencoder rebuilds its rows, but these rows are objects, which cannot be rebuilt from numbers. Give vectors, "
    "a table or images; KernelEmbedding represents objects."
)


@dataclass(eq=False, repr=False)
class KernelAutoencoder(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnePassEstimator[NormalSums, Decoder]
):
    """Encode rows as points on a sphere from which a kernel machine can reconstruct them.

        min |X - W2^T phi2(W1^T phi1(X))|^2 + lam (|W1|^2 + |W2|^2),     |W1^T phi1(x_i)| = 1         [esser, Def. 3]

    Encoder and decoder have a kernel each. The decoder is solved for, not trained; what is trained is the bottleneck.

    Parameters
    ----------
    n_components : int, default=16
        Width h of the bottleneck, at least 2: on the "sphere" of one dimension there are only two points.
    kernel : str, Kernel or callable k(X, Y) -> (n, m), default="gaussian"
        The encoder's kernel, phi1.
    decoder_kernel : str or Kernel, default="gaussian"
        The decoder's, phi2, on points of the sphere. It needs a derivative: Gaussian, Laplacian, Matérn, linear,
        polynomial, and sums, products and multiples of these. A lengthscale of "median" is that of the start.
    regularization : float, default=0.1
        lam of encoder and decoder, for rows that are centred and divided by the root of their mean squared length, and
        for an encoder's kernel with mean k(x, x) = 1. The sum of squares grows with the number of rows, lam does not.
    encoder_regularization : float or None, default=None
        Another lam for the encoder.
    encoder_noise : float, default=0.001
        Added to the diagonal of the encoder's kernel matrix, relative to mean k(x, x): how exactly the encoder meets
        the bottleneck it was asked for. Near 0 it is the published form.
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
        How landmarks, the rows that all others are compared with, are chosen.
    n_landmarks : int or None, default=500
        Number m of landmarks. With as many rows or fewer, or None, all rows are landmarks: the exact autoencoder.
    max_rows : int, default=5000
        Rows that the bottleneck is learned from, drawn at random. The decoder is fitted to all rows.
    max_iter : int, default=200
        Steps of the descent, at most.
    tol : float, default=0.0001
        It ends when five steps gain less than this share of the objective.
    preprocess, engine, device, random_state, verbose : as in KernelEmbedding
    dtype : "float32" or "float64", default="float64"
        Precision of the encoder's kernel values; all else is float64.

    Attributes
    ----------
    bottleneck_ : ndarray of shape (m, h)
        Unit rows: what the encoder was asked for at the landmarks.
    history_ : list of float
        The objective at the start, kernel PCA, and after every step. It never rises.
    n_iter_ : int
    converged_ : bool
    exact_ : bool
        Whether all rows are landmarks.
    decoder_kernel_ : Kernel
    kernel_, space_, landmarks_, landmark_indices_, input_space_, total_, n_samples_seen_, n_features_in_
        As in KernelEmbedding; `total_` are the decoder's normal equations.

    Notes
    -----
    New rows: f = Z^T (K + eps I)^-1 k_x as in [esser, Thm. 5], then z = f / |f|. The published z* = f has length one
    at the rows of the fit alone; here every row has, also rows of the fit, if eps > 0. Rows that no landmark
    resembles have no direction: they are the zero vector, and their reconstruction is near the mean.

    Tables are reconstructed as encoded by TableEncoder and then turned back into their columns.

    Examples
    --------
    A circle, encoded as points on a circle:

    >>> angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    >>> X = np.column_stack([5 + np.cos(angle), np.sin(angle)])
    >>> model = KernelAutoencoder(2, regularization=0.01, random_state=0).fit(X)
    >>> bool(np.abs(model.reconstruct(X) - X).max() < 0.05)
    True
    """

    component_kinds = {"kernel": Kernel, "decoder_kernel": Kernel, "landmarks": LandmarkSelector}

    n_components: int = 16
    _: KW_ONLY
    decoder_kernel: str | Kernel = "gaussian"
    regularization: float = 0.1
    encoder_regularization: float | None = None
    encoder_noise: float = 1e-3
    n_landmarks: int | str | None = 500
    max_rows: int = 5000
    max_iter: int = 200
    tol: float = 1e-4
    dtype: str = "float64"

    decoder_kernel_: Kernel = field(init=False)
    history_: list[float] = field(init=False)
    n_iter_: int = field(init=False)
    converged_: bool = field(init=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.sparse = False  # rows are rebuilt
        return tags

    # Fitting

    def fit(  # type: ignore[override]  # it takes targets, and no weights
        self,
        X: Any,
        y: Any = None,
        *,
        targets: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn from X: an array, tensor, frame, memory map, source, or one path. `y` is ignored.

        `targets` are rows like X, one for each, to reconstruct instead of X itself: clean rows where X are
        noisy ones is the de-noising autoencoder of [esser, Remark 2]. `checkpoint` is for the pass over all rows, which
        comes after the descent. `space` is a feature space to use as it is.
        """
        self._check_parameters()
        data = self._opened(X, None, space, positives=targets, positives_name="targets")
        check_checkpoint(checkpoint, data, self.random_state)
        space = self._prepared(FitData(data.sources[:1])) if space is None else space.decomposed()
        if not isinstance(space.landmarks, Tensor):
            raise ValueError(OBJECTS)
        bottleneck = self._trained(space, data)
        sums = DecoderSums(*_machines(space, bottleneck))
        tally = total(sums, data, space, self._run_in(space), checkpoint)
        assert tally.total is not None
        decoder = Decoder.solved(sums.features, tally.total, self.regularization)
        self._own(Fit(space, tally), decoder)._set_bottleneck(bottleneck)
        self._record_input(X, space.inputs)
        if checkpoint is not None:
            remove_checkpoint(checkpoint)
        return self

    def partial_fit(  # type: ignore[override]
        self, X: Any, y: Any = None, *, targets: Any = None, first_row: int | None = None
    ) -> Self:
        """Add rows. The first call is a fit; later ones add to the decoder alone, the encoder stays as it is."""
        if self._fitted is None:
            return self.fit(X, targets=targets)
        return self._add_rows(X, first_row, positives=targets, positives_name="targets")

    def forget(  # type: ignore[override]
        self, X: Any, y: Any = None, *, rows: ArrayLike, targets: Any = None
    ) -> list[str]:
        """Take rows back from the decoder's sums; the encoder stays as it is. See `KernelEmbedding.forget`."""
        return self._forget_rows(X, rows, positives=targets, positives_name="targets")

    def _still_dependent(self) -> list[str]:
        return [*super()._still_dependent(), "the encoder"]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_integer(self.n_components, least=2):
            raise ValueError(
                f"n_components={self.n_components!r:.60}: expected an integer >= 2. Points of the bottleneck have "
                "length one, and with one component there are only two of them, -1 and 1."
            )
        for name in ("regularization", "encoder_regularization"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), "a finite number", least=SMALLEST_REGULARIZATION)
        if as_kernel(self.decoder_kernel).only_objects:
            raise ValueError(
                f"decoder_kernel={self.decoder_kernel!r} compares objects, but the decoder compares points of the "
                "bottleneck, which are numbers: use a kernel such as 'gaussian' there."
            )
        check_number("encoder_noise", self.encoder_noise, least=0)
        check_number("tol", self.tol, least=0)
        check_count("max_rows", self.max_rows, 2)
        check_count("max_iter", self.max_iter, 0)

    def _spec(self, data: FitData) -> Spec:
        n, by_rule = data.n_rows, isinstance(self.landmarks, str | LandmarkSelector | type)
        exact = by_rule and (self.n_landmarks is None or n <= int(self.n_landmarks))
        if exact and n > EXACT_ROWS:
            raise ValueError(
                f"n_landmarks={self.n_landmarks} makes all {n:,} rows landmarks, which takes about "
                f"{5 * 8 * n * n / 1e9:,.1f} GB for five square matrices, and hours. Give fewer, such as "
                "n_landmarks=500: the Nyström form, whose memory does not grow with the number of rows."
            )
        if data.sources[0].kind == "sparse":
            raise ValueError(
                f"An autoencoder rebuilds dense rows, but these are sparse. {REDUCE}; KernelEmbedding represents "
                "sparse rows."
            )
        if data.sources[0].kind == "objects":
            raise ValueError(OBJECTS)
        m = n if self.n_landmarks is None else int(self.n_landmarks)
        landmarks = np.arange(n) if exact else self.landmarks
        return replace(super()._spec(data), landmarks=landmarks, n_landmarks=m)

    def _trained(self, space: FeatureSpace, data: FitData) -> FittedBottleneck:
        """The descent, on all rows or some of them."""
        n, landmark_rows = data.n_rows, space.landmark_rows
        exact = landmark_rows is not None and np.array_equal(landmark_rows, np.arange(n))
        generator = np.random.default_rng(space.seed)
        chosen = np.arange(n)
        if not exact and n > self.max_rows:
            chosen = np.sort(generator.choice(n, self.max_rows, replace=False))
        inputs = data.reader(space.inputs, space.placement).take(chosen).inputs
        X, target = dense(inputs[0]), _centred(dense(inputs[-1]))
        scale = space.kernel.diag(space.landmarks).double().mean().item()
        K_mm = space.kernel(space.landmarks).double() / scale
        s, U = descending_eigh(K_mm)
        s = s.clamp(min=0) + max(self.encoder_noise, 1e-12 * s[0].item())
        P = (U / s) @ U.mT
        rows = None if exact else space.features.kernel_block(X).double().div_(scale) @ P
        start = _principal_directions(space, X, self.n_components, generator)
        kernel = as_kernel(self.decoder_kernel)
        kernel = kernel.fitted(start, torch.Generator().manual_seed(space.seed))
        lam = self.regularization
        encoder_lam = lam if self.encoder_regularization is None else self.encoder_regularization
        objective = BottleneckObjective(kernel, P, K_mm @ P, rows, target, lam, encoder_lam)
        curvature = objective.terms(start)["decoder"] / len(start)  # the decoder's part, for one row
        stiffness = 1 / (encoder_lam / s + curvature)
        with display(self.verbose).stage("Bottleneck"):
            found = descend(objective, start, lambda V: (U * stiffness) @ (U.mT @ V), self.max_iter, self.tol)
        if not found.converged and self.max_iter > 0:
            warn(
                f"The descent has not ended after max_iter={self.max_iter} steps: the last five gained more than "
                f"tol={self.tol:g} of the objective. The result can be used; more steps may improve it."
            )
        return FittedBottleneck(found.Z, P @ found.Z / scale, kernel, found.values, found.converged, exact)

    def _set_bottleneck(self, bottleneck: FittedBottleneck) -> Self:
        self._bottleneck, self.decoder_kernel_ = bottleneck, bottleneck.kernel
        self.bottleneck_ = bottleneck.Z.cpu().numpy()
        self.history_, self.converged_ = bottleneck.values, bottleneck.converged
        self.n_iter_, self.exact_ = len(bottleneck.values) - 1, bottleneck.exact
        return self

    def _accumulator(self, space: FeatureSpace) -> DecoderSums:
        return DecoderSums(*_machines(space, self._bottleneck))

    def _solve(self, value: NormalSums) -> Decoder:
        return Decoder.solved(_machines(self.space_, self._bottleneck)[1], value, self.regularization)

    def empty_copy(self) -> Self:
        return super().empty_copy()._set_bottleneck(self._bottleneck)

    def fingerprint(self) -> dict[str, str]:
        return self._accumulator(self.space_).fingerprint()

    # Using

    def transform(self, X: Any) -> np.ndarray:  # shape: (n, h)
        """Points on the unit sphere; a row that no landmark resembles is the zero vector."""
        encoder = self._encoder()
        return self._mapped(lambda rows: encoder(dense(rows)), X)

    def inverse_transform(self, Z: ArrayLike) -> np.ndarray | pa.Table:
        """Rows in the form of the data from points of the bottleneck (n, h): arrays, images, columns of a table.

        Points are decoded as they are, also off the sphere.
        """
        return self.space_.inputs.restored(self._decoded(Z))

    def reconstruct(self, X: Any) -> np.ndarray | pa.Table:
        """`inverse_transform(transform(X))`: each row as the bottleneck keeps it, or without its noise."""
        return self.inverse_transform(self.transform(X))

    def iter_reconstruct(
        self, X: Any, batch_rows: int | None = None
    ) -> Iterator[tuple[np.ndarray | pa.Table, np.ndarray]]:
        """Reconstructions in batches, and the error of each row: memory stays bounded whatever n is.

        The error is |x - x^| / spread, where spread^2 is the mean |x - xbar|^2 of the rows of the fit, or of their
        targets: 0 is exact, 1 as far as the mean row.
        """
        self.check_input(X)
        inputs, decoder = self.input_space_, self._solved()
        encoder = self._encoder()

        def decoded(rows: Rows) -> Tensor:
            found = decoder(encoder(dense(rows)))
            error = (dense(rows).double().flatten(1) - found).norm(dim=1) / decoder.spread
            return torch.cat([found, error[:, None]], dim=1)

        for block in self.map_rows(decoded, X, batch_rows):
            yield inputs.restored(block[:, :-1]), block[:, -1].cpu().numpy()

    @property
    def reconstruct_dtype(self) -> np.dtype:
        """The dtype of decoded arrays."""
        return np.dtype(np.float64)

    def score(self, X: Any, y: Any = None, *, targets: Any = None) -> float:
        """1 - |x - x^|^2 / |x - mean|^2 over all rows, encoded as the model sees them; 1 is perfect. y is ignored.

        With `targets`, the rows to compare the reconstruction with. Of rows that are all equal, up to rounding, 1 if
        they are reconstructed to rounding, and else 0.
        """
        wanted = self._mapped(lambda rows: dense(rows).double().flatten(1), X if targets is None else targets)
        decoder, found = self._solved(), self._decoded(self.transform(X)).cpu().numpy()
        spread, errors = wanted - decoder.mean.cpu().numpy(), wanted - found
        rounding = np.finfo(float).eps * np.abs(wanted).max()
        largest = np.abs(spread).max()
        if largest <= rounding:
            return float(np.abs(errors).max() <= rounding)
        # Divided first, because squares of numbers below 1e-160 vanish.
        return float(1 - (np.linalg.norm(errors / largest) / np.linalg.norm(spread / largest)) ** 2)

    def _encoder(self) -> Encoder:
        return Encoder(self.space_, self._bottleneck.coefficients)

    def _decoded(self, Z: ArrayLike) -> Tensor:
        """Rows of the input space (n, d) from points of the bottleneck."""
        decoder, points = self._solved(), as_matrix(Z, "Z").astype(np.float64)
        h = self._bottleneck.Z.shape[1]
        if points.shape[1] != h:
            raise ValueError(f"Z has {points.shape[1]} columns; expected {h}, as transform gives them.")
        return decoder(torch.from_numpy(points).to(self.space_.device))

    @property
    def _n_features_out(self) -> int:
        return self._bottleneck.Z.shape[1]

    # Files

    def _state(self, total: bool = True) -> State:
        return super()._state(total) | {"bottleneck": self._bottleneck}

    def _restore(self, state: State) -> None:
        m = len(self.space_.landmarks)
        self._set_bottleneck(decode(FittedBottleneck, state["bottleneck"], self.space_.device, m=m))


def _machines(space: FeatureSpace, bottleneck: FittedBottleneck) -> tuple[Encoder, NystromMap]:
    """The encoder, and the decoder's features."""
    encoder = Encoder(space, bottleneck.coefficients)
    return encoder, NystromMap(bottleneck.kernel, encoder(dense(space.landmarks)), torch.float64)


def _centred(X: Tensor) -> Tensor:
    """Flat rows without their mean, of mean squared length 1."""
    X = X.double().flatten(1)
    X = X - X.mean(0)
    length = X.square().sum(1).mean().sqrt()
    return X / length if length > 0 else X


def _principal_directions(space: FeatureSpace, X: Tensor, h: int, generator: np.random.Generator) -> Tensor:
    """Directions of the landmarks' first h principal components in the kernel's space, (m, h).

    A little noise gives a direction to rows and components that have none.
    """
    Phi, at_landmarks = (space.features(rows).double() for rows in (X, space.landmarks))
    centre = Phi.mean(0)
    _, V = descending_eigh((Phi - centre).mT @ (Phi - centre), min(h, Phi.shape[1]))
    scores = torch.zeros(len(at_landmarks), h, dtype=torch.float64, device=space.device)
    scores[:, : V.shape[1]] = (at_landmarks - centre) @ V
    size = scores.square().mean().sqrt().item() or 1.0
    noise = torch.from_numpy(generator.normal(size=tuple(scores.shape))).to(scores.device)
    return torch.nn.functional.normalize(scores + START_NOISE * size * noise, dim=1)
