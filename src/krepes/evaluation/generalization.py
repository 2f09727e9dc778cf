"""How much worse a representation may be on new data: bounds with explicit constants  [esser, Thm. 6, 7].

For a class of functions l with values in an interval of length b, and n independent samples, with probability
1 - delta for all l of the class at once (symmetrisation, and McDiarmid's inequality twice):

    E l <= mean l + 2 R + 3 b sqrt(log(2 / delta) / 2n),      R = E_sigma sup_l (1/n) sum_i sigma_i l(t_i)

**Contrastive losses.** A sample is a triplet t = (x, x+, x-). With M = W W^T, z^T z' = <M, phi(x) phi(x')^T>: both
losses are functions of inner products with M, so that no contraction for vectors is needed, which costs a factor
sqrt(h). For |M|_F <= s, |M|_2 <= t, k(x, x) <= kappa, d_i = phi(x_i^-) - phi(x_i^+), Cauchy-Schwarz and Jensen give

    simple     R <= (s/n) (sum_i k(x_i, x_i) |d_i|^2)^(1/2),                            b = 4 t kappa
    spectral   R <= (2s/n) (sum_i k(x_i, x_i) k(x_i^+, x_i^+))^(1/2)
                  + 2 s kappa (s/n) (sum_i k(x_i, x_i) k(x_i^-, x_i^-))^(1/2),          b = 4 s kappa + s^2 kappa^2

because u^2 has slope at most 2 s kappa for |u| <= s kappa (Talagrand's contraction). Under W^T W = I, s = sqrt(h) and
t = 1 are fixed before any data are seen. For the spectral loss s is the norm of the fit, and the statement needs one
that was fixed before: so s is rounded up to s_j = 2^j / kappa, j = 0, 1, ..., each with its share
delta_j = delta / ((j + 1)(j + 2)). These sum to delta, and the bound holds for all j at once. lam |W|^2 is the same on
both sides and left out. [esser] has |W|^2 >= |W W^T|_F in the place of s.

**Autoencoder.** l = |x - W_2^T phi_2(W_1^T phi_1(x))|^2 with |x| <= B, |W_1| <= w_1, |W_2| <= w_2, k_2(z, z) <= gamma,
|phi_2(z) - phi_2(z')| <= L |z - z'|. With c = B + w_2 sqrt(gamma), b = c^2, and for one encoder
R <= (c^2 - B^2) / sqrt(n). The encoders' values on the sample, in the norm (mean_i |z_i|^2)^(1/2), are covered up to
eps by N points: with e_1 >= e_2 >= ... the eigenvalues of K_1 / n and q of them above (eps / 2 w_1)^2, the other
directions move a point by eps/2 at most, and log N <= q h log(1 + 4 w_1 sqrt(e_1) / eps). A maximum over N classes
costs (b/2) sqrt(2 log N / n), and a step of eps changes l by 2 c w_2 L eps in the mean:

    R <= (c^2 - B^2) / sqrt(n) + min over eps of [ b sqrt(log N / 2n) + 2 c w_2 L eps ]

Both norms are rounded up as above, to powers of two. Of a `KernelAutoencoder` this bounds z = f = W_1^T phi_1(x), as
published: f / |f|, which the model takes for new rows, is not a Lipschitz function of f. The mean row that its decoder
adds comes from the data, too, and is a part of W_2: phi_2(z) gets one more coordinate, which is 1.

Differs from [esser]: the encoder's norm is in Theorem 7 only as lam w_1^2, which is as small as lam. It takes more:
an encoder of large norm can send the samples with sigma_i = 1 to one place and the others to another, and then
|sum_i sigma_i phi_2(z_i)| is of order n, not sqrt(n). And kappa is there the largest k(x, x) of the sample, where
McDiarmid's inequality needs one for all points.

The statements need independent triplets (negatives that are other rows of the same sample are not), and a kernel,
preprocessing and n_components that were fixed without these data: a lengthscale from their median is not. Landmarks may
depend on them, because the class is all of the kernel's space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from krepes.autoencoder import KernelAutoencoder
from krepes.base.blocks import row_blocks
from krepes.base.rows import Rows, dense, slice_rows
from krepes.base.validation import as_numbers, check_count, check_number, check_share
from krepes.embedding import KernelEmbedding
from krepes.kernels import Gaussian, Kernel
from krepes.kernels.vectors import RadialKernel
from krepes.losses import SimpleContrastive, SpectralContrastive

BLOCK = 512  # rows whose kernel values are computed at once
LARGEST = 1e50  # number of which products are formed
MOST_ROWS = 5000  # between which the eigenvalues of a kernel matrix are taken


@dataclass(frozen=True)
class GeneralizationBound:
    """An upper bound of the expected loss, as a sum of named terms.

    Attributes
    ----------
    empirical : float
        The mean loss of the samples.
    complexity : float
        2 R: how well functions of this norm can follow noise.
    deviation : float
        3 b sqrt(log(2 / delta) / 2n): how far a mean of n samples may be off.
    norm : float or tuple of floats
        What the norms of the fit were rounded up to.
    largest_margin : float or None
        The largest |f(x)^T (f(x') - f(x''))| of the class, for `downstream_bound`.
    margin : float or None
        An upper bound of the expected f(x)^T (f(x-) - f(x+)).
    """

    empirical: float
    complexity: float
    deviation: float
    norm: float | tuple[float, ...]
    largest_margin: float | None = None
    margin: float | None = None

    @property
    def total(self) -> float:
        """empirical + complexity + deviation: the expected loss is at most this, with probability 1 - delta."""
        return self.empirical + self.complexity + self.deviation


@dataclass(frozen=True)
class DownstreamBound:
    """An upper bound of the error of a classifier on the representation.

    Attributes
    ----------
    margin : float
        The expected f(x)^T (mu_other - mu_own) for two different classes is at most this; negative is good.
    error : float
        The expected share of rows that are nearer, by inner product, to the mean of the other class; 1 says nothing.
    """

    margin: float
    error: float


def contrastive_bound(
    model: KernelEmbedding,
    X: Any,
    positives: Any,
    negatives: Any,
    *,
    delta: float = 0.05,
    kappa: float | None = None,
) -> GeneralizationBound:
    """Bound the contrastive loss of a fitted model on new triplets, from those that it was fitted on.

    Parameters
    ----------
    model : KernelEmbedding with loss "simple_contrastive" or "spectral_contrastive"
        The latter is bounded in its form over triplets, whichever of the two it was fitted with.
    X, positives, negatives : n independent triplets, as `fit` takes them
    delta : float, default=0.05
        The bound may fail with this probability.
    kappa : float, default=None
        The largest k(x, x) of any point, not only of these; known for kernels of distances, for which it is 1.

    Examples
    --------
    >>> from krepes.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X, N = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> triplets = (X, X + 0.1 * rng.normal(size=X.shape), N)
    >>> model = KernelEmbedding(2, kernel=Gaussian(1.0), loss="simple_contrastive", n_landmarks=50, random_state=0)
    >>> bound = contrastive_bound(model.fit(X, positives=triplets[1], negatives=N), *triplets)
    >>> bound.empirical < 0 < bound.complexity < bound.deviation
    True
    """
    check_share("delta", delta)
    loss = model.loss_
    if not isinstance(loss, SimpleContrastive | SpectralContrastive):
        raise ValueError(f"The bound is for simple_contrastive and spectral_contrastive, not for {loss}.")
    model.check_input(X)
    space = model.space_
    data = space.open(X, positives, negatives)
    rows = data.reader(space.inputs, space.placement).take(np.arange(data.n_rows)).inputs
    if len(rows) < 3:
        raise ValueError("The bound needs triplets: give X, positives and negatives.")
    kappa = _kappa(space.kernel, kappa)
    scaled = model.rescaled("loss")
    Z, Z_p, Z_n = (scaled.transform(part).astype(np.float64) for part in (X, positives, negatives))
    k, k_p, k_n = (space.kernel.diag(part).double().cpu().numpy() for part in rows)
    n, aligned, apart = len(Z), (Z * Z_p).sum(1), (Z * Z_n).sum(1)
    if isinstance(loss, SimpleContrastive):
        if isinstance(model.n_components, str):
            raise ValueError("n_components='auto' is chosen by the data, and voids the bound: give a number.")
        s, t, b, values = math.sqrt(model.n_components), 1.0, 4 * kappa, apart - aligned
        delta_sq = np.maximum(k_n + k_p - 2 * _paired(space.kernel, rows[2], rows[1]), 0)
        R = s / n * math.sqrt((k * delta_sq).sum())
    else:
        s, delta = _rounded_up(_norm_of(scaled), 1 / kappa, delta)
        t, b, values = s, 4 * s * kappa + (s * kappa) ** 2, apart**2 - 2 * aligned
        R = 2 * s / n * math.sqrt((k * k_p).sum()) + 2 * s**2 * kappa / n * math.sqrt((k * k_n).sum())
    bound = GeneralizationBound(float(values.mean()), 2 * R, _deviation(b, n, delta), s)
    # of the spectral loss, -2 a + b^2 >= 2 (b - a) - 1
    margin = bound.total if isinstance(loss, SimpleContrastive) else (1 + bound.total) / 2
    return replace(bound, largest_margin=2 * t * kappa, margin=margin)


def downstream_bound(bound: GeneralizationBound, collision: float) -> DownstreamBound:
    """Bound the error of the classifier by class means, from the bound of a contrastive loss.

    A class is drawn for x and x+, which are independent given the class, and another class for x-. `collision` is the
    probability that the two are the same, sum_c p_c^2. With v = f(x)^T (mu_own - mu_other), the expectation of
    f(x)^T (f(x-) - f(x+)) is -(1 - collision) E[v | different classes], and |v| <= V gives P(v <= 0) <= 1 - E[v] / V.

    Differs from [saunshi], who assume a hinge or logistic loss, which bounds the error directly. These losses are
    linear or quadratic, and the step from the margin to the error costs the factor V, the largest possible margin.

    Examples
    --------
    Every margin is -0.9 of the largest, 1; half of the pairs are of the same class:

    >>> downstream_bound(GeneralizationBound(-0.5, 0.03, 0.02, 1.0, largest_margin=1.0, margin=-0.45), 0.5)
    DownstreamBound(margin=-0.9, error=0.09999999999999998)
    """
    check_number("collision", collision, "a probability", least=0, below=1)
    if bound.margin is None or bound.largest_margin is None:
        raise ValueError("This bound is not one of a contrastive loss, and says nothing about classes.")
    margin = bound.margin / (1 - collision)
    return DownstreamBound(margin, float(np.clip(1 + margin / bound.largest_margin, 0, 1)))


def autoencoder_bound(
    model: KernelAutoencoder,
    X: Any,
    *,
    radius: float,
    kappa: float | None = None,
    lipschitz: float | None = None,
    delta: float = 0.05,
) -> GeneralizationBound:
    """Bound the squared reconstruction error of a fitted kernel autoencoder on new rows.

    Parameters
    ----------
    model : KernelAutoencoder
    X : n independent rows, as `fit` takes them
        Part of the training rows is enough.
    radius : float
        The largest |x| of any row, B: as the model sees rows, encoded or scaled.
    kappa : float, default=None
        The largest k_2(z, z) of the decoder's kernel; 1 for kernels of distances.
    lipschitz : float, default=None
        |phi_2(z) - phi_2(z')| <= lipschitz |z - z'|; 1 / lengthscale for Gaussian kernels.
    delta : float, default=0.05
    """
    model.check_input(X)
    space, encoder, decoder = model.space_, model._encoder(), model._solved()
    reader = space.reader(X)
    if reader.n_rows > MOST_ROWS:
        raise ValueError(
            f"X has {reader.n_rows:,} rows. The bound takes the eigenvalues of the kernel matrix between all of them, "
            f"and is for at most {MOST_ROWS:,}: give that many, drawn at random."
        )
    rows = dense(reader.take(np.arange(reader.n_rows)).inputs[0])
    found = decoder(encoder.before_normalising(rows))
    kernel = model.decoder_kernel_
    if lipschitz is None:
        if not (isinstance(kernel, Gaussian) and isinstance(kernel.lengthscale, int | float)):
            raise ValueError(f"lipschitz= is needed: that of the features of {kernel}, the decoder's kernel.")
        lipschitz = 1 / kernel.lengthscale
    return reconstruction_bound(
        (rows.double().flatten(1) - found).square().sum(1).mean().item(),
        np.linalg.eigvalsh(space.kernel(rows).double().cpu().numpy() / len(rows)),
        n_components=model._n_features_out,
        radius=radius,
        encoder_norm=encoder.norm,
        decoder_norm=math.sqrt((decoder.W.square().sum() + decoder.mean.square().sum()).item()),
        kappa=1 + _kappa(kernel, kappa),
        lipschitz=lipschitz,
        delta=delta,
    )


def reconstruction_bound(
    error: float,
    eigenvalues: ArrayLike,
    *,
    n_components: int,
    radius: float,
    encoder_norm: float,
    decoder_norm: float,
    kappa: float = 1.0,
    lipschitz: float = 1.0,
    delta: float = 0.05,
) -> GeneralizationBound:
    """Bound the squared reconstruction error of any autoencoder of kernels, from its figures.

    Parameters
    ----------
    error : float
        The mean |x - x'|^2 over n rows.
    eigenvalues : array of shape (n,)
        Of the encoder's kernel matrix between the n rows, divided by n.
    n_components : int
        Width of the bottleneck, h.
    encoder_norm, decoder_norm : float
        |W_1| and |W_2| in their kernels' spaces.
    radius, kappa, lipschitz, delta : as in `autoencoder_bound`

    Examples
    --------
    >>> bound = reconstruction_bound(0.1, 0.5 ** np.arange(100), n_components=2, radius=1.0, encoder_norm=1.0,
    ...                              decoder_norm=1.0)
    >>> bound.total > bound.empirical, bound.norm
    (True, (1.0, 1.0))
    """
    check_share("delta", delta)
    check_count("n_components", n_components)
    numbers = {"error": error, "radius": radius, "kappa": kappa, "lipschitz": lipschitz}
    for name, value in (numbers | {"encoder_norm": encoder_norm, "decoder_norm": decoder_norm}).items():
        check_number(name, value, least=0, most=LARGEST)
    e = np.sort(as_numbers(eigenvalues, "eigenvalues").astype(np.float64).ravel().clip(min=0))[::-1]
    n = len(e)
    w_1, delta = _rounded_up(encoder_norm, 1.0, delta)
    w_2, delta = _rounded_up(decoder_norm, 1.0, delta)
    reach = radius + w_2 * math.sqrt(kappa)
    b = reach**2
    longest = w_1 * math.sqrt(e[0])  # of the encoders' values on the sample
    eps = np.append(np.geomspace(1e-4, 2, 60) * longest, 2 * longest)
    q = (w_1 * np.sqrt(e) > eps[:, None] / 2).sum(1)
    log_n = q * n_components * np.log1p(4 * longest / np.maximum(eps, np.finfo(float).tiny))
    encoder = (b * np.sqrt(log_n / (2 * n)) + 2 * reach * w_2 * lipschitz * eps).min()
    R = (b - radius**2) / math.sqrt(n) + float(encoder)
    return GeneralizationBound(float(error), 2 * R, _deviation(b, n, delta), (w_1, w_2))


def _deviation(b: float, n: int, delta: float) -> float:
    return 3 * b * math.sqrt(math.log(2 / delta) / (2 * n))


def _rounded_up(norm: float, unit: float, delta: float) -> tuple[float, float]:
    """The first unit 2^j >= norm, j = 0, 1, ..., and its share delta / ((j + 1)(j + 2)).

    >>> _rounded_up(3.0, 1.0, 0.6)
    (4.0, 0.049999999999999996)
    """
    j = max(0, math.ceil(math.log2(norm / unit))) if norm > 0 else 0
    return unit * 2.0**j, delta / ((j + 1) * (j + 2))


def _norm_of(model: KernelEmbedding) -> float:
    """|W W^T|_F = |W^T W|_F, W^T W = A^T K_mm A."""
    A = model._solved().A.double()
    K_mm = model.kernel_(model.landmarks_).double()
    return float((A.mT @ K_mm @ A).norm())


def _kappa(kernel: Kernel, given: float | None) -> float:
    if given is None:
        if isinstance(kernel, RadialKernel):
            return 1.0
        raise ValueError(f"kappa= is needed: the largest k(x, x) of any point under {kernel}.")
    check_number("kappa", given, above=0)
    return float(given)


def _paired(kernel: Kernel, first: Rows, second: Rows) -> np.ndarray:
    """k(x_i, y_i), shape (n,)."""
    parts = []
    for block in row_blocks(len(first), BLOCK):
        x, y = (slice_rows(rows, block.start, block.stop) for rows in (first, second))
        parts.append(kernel(x, y).diagonal())
    return torch.cat(parts).double().cpu().numpy()
