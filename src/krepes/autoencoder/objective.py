"""The objective of a kernel autoencoder in terms of its bottleneck  [esser, Def. 3 and Thm. 5].

    |X - W2^T phi2(W1^T phi1(X))|^2 + lam |W2|^2 + lam_e |W1|^2,     |z_i| = 1

Encoder: Z (m, h), unit rows, are the outputs wanted at m landmarks, z(x) = f / |f| with f = Z^T P k_x and
P = (K_mm + eps I)^-1; |W1|^2 = tr Z^T P Z. The decoder has its centres at c_j = z(landmark j) and is the best one there
is (variable projection):

    all rows are landmarks:    lam tr X^T (K + lam I)^-1 X,                K = k(z_i, z_j)                  [Thm. 5]
    else:                      |X|^2 - tr B^T (A + lam K_c)^-1 B,          A = K_nc^T K_nc,  B = K_nc^T X

The second is the first where the landmarks are all rows. Derivatives of the coefficients C of a best decoder drop out:
df/dK = -lam C C^T in the first case; in the second df/dK_nc = -2 (X - K_nc C) C^T and df/dK_c = lam C C^T.
With eps = 0, z_i = Z_i and this is Theorem 5. O(n m (d + h) + m^2 (m + d)) for value and gradient.

Descent on a product of spheres: rows of Z (m, h) keep length one.

    gradient   g = P_Z(df/dZ),     P_Z(V)_i = v_i - (v_i.z_i) z_i           the tangent part of every row
    step       Z' = (Z + t d) / |rows|,                                     retraction by normalisation
    direction  d = -P_Z(H g), H from the last pairs of steps and changes of g (L-BFGS); pairs move along by P_Z'

Steps are halved until f(Z') <= f(Z) + 1e-4 t <g, d> (Armijo), so that f never rises. L-BFGS starts from a given
positive definite matrix, which is what makes it fast where f is stiff. O(m h) beside f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.linalg import RELATIVE_CUT
from krepes.kernels import Kernel
from krepes.kernels.kernel import Pair, Product, Scaled, no_slope
from krepes.losses.directions import directions
from krepes.losses.ridge_decoder import decoder_factor, in_sample_errors

BLOCK_ROWS = 2048

Pulls = tuple[Tensor, Tensor]  # df/dX (n, h) and df/dY (m, h)
MEMORY = 10  # pairs that L-BFGS keeps
ARMIJO = 1e-4
HALVINGS = 30
WINDOW = 5  # steps over which progress is judged
LONGEST = 0.5  # first step of a row, in radians or so

Function = Callable[[Tensor], tuple[float, Tensor]]  # Z -> f, df/dZ
Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class BottleneckObjective:
    """A function of Z, with its gradient.

    Attributes
    ----------
    kernel : Kernel
        The decoder's, with a derivative.
    P : Tensor of shape (m, m)
        Inverse of the encoder's kernel matrix, its noise included.
    landmarks : Tensor of shape (m, m)
        K_mm P, by which Z becomes f at the landmarks.
    rows : Tensor of shape (n, m) or None
        K_nm P, likewise at all rows; None where the rows are the landmarks.
    X : Tensor of shape (n, d)
        What is reconstructed: centred, of mean squared length 1.
    lam, encoder_lam : float
    """

    kernel: Kernel
    P: Tensor
    landmarks: Tensor
    rows: Tensor | None
    X: Tensor
    lam: float
    encoder_lam: float

    def __call__(self, Z: Tensor) -> tuple[float, Tensor]:
        """Value and gradient with respect to Z (m, h), not yet tangent."""
        value, gradient = self._exact(Z) if self.rows is None else self._nystrom(Z)
        PZ = self.P @ Z
        penalty = self.encoder_lam * (Z * PZ).sum().item()
        return value + penalty, gradient.add_(PZ, alpha=2 * self.encoder_lam)

    def terms(self, Z: Tensor) -> dict[str, float]:
        """The decoder's part and the encoder's; their sum is the value."""
        encoder = self.encoder_lam * (Z * (self.P @ Z)).sum().item()
        return {"decoder": self(Z)[0] - encoder, "encoder": encoder}

    def _exact(self, Z: Tensor) -> tuple[float, Tensor]:
        f = self.landmarks @ Z
        z = directions(f)
        L = decoder_factor(self.kernel(z), self.lam)
        value = in_sample_errors(L, self.X, self.lam).square().sum().item()
        C = torch.cholesky_solve(self.X, L)
        pulls = kernel_pull(self.kernel, z, z, -self.lam * (C @ C.mT))
        return value, self.landmarks.mT @ _before_normalising(f, z, pulls[0] + pulls[1])

    def _nystrom(self, Z: Tensor) -> tuple[float, Tensor]:
        assert self.rows is not None
        f = self.landmarks @ Z
        centres = directions(f)
        K_c, columns = self.kernel(centres), self.kernel.against(centres)
        A, B = self.lam * K_c, torch.zeros(len(Z), self.X.shape[1], dtype=Z.dtype, device=Z.device)
        blocks = list(row_blocks(len(self.X), BLOCK_ROWS))
        for block in blocks:
            K = columns(directions(self.rows[block] @ Z))
            A = A + K.mT @ K
            B += K.mT @ self.X[block]
        C = solved(A, B)
        value = (self.X.square().sum() - (B * C).sum()).item()
        CC = C @ C.mT
        pulls = kernel_pull(self.kernel, centres, centres, self.lam * CC)
        at_centres, gradient = pulls[0] + pulls[1], torch.zeros_like(Z)
        for block in blocks:
            f_rows = self.rows[block] @ Z
            z = directions(f_rows)
            G = (columns(z) @ CC).sub_(self.X[block] @ C.mT).mul_(2)
            at_rows, pulled = kernel_pull(self.kernel, z, centres, G)
            at_centres = at_centres + pulled
            gradient += self.rows[block].mT @ _before_normalising(f_rows, z, at_rows)
        return value, gradient.add_(self.landmarks.mT @ _before_normalising(f, centres, at_centres))


def _before_normalising(f: Tensor, z: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with respect to f, where z = f / |f|; zero rows have none."""
    length = f.norm(dim=1, keepdim=True)
    tangential = gradient - (gradient * z).sum(1, keepdim=True) * z
    return torch.where(length > 0, tangential / length, 0.0)


def kernel_pull(kernel: Kernel, X: Tensor, Y: Tensor, G: Tensor) -> Pulls:
    """The gradients of f = sum_ij G_ij k(x_i, y_j); X (n, h), Y (m, h), G (n, m).

        df/dx_i = -sum_j G_ij R_ij (x_i - y_j),   df/dy_j = sum_i G_ij R_ij (x_i - y_j)

    R is the kernel's `slope`; for kernels of x.y the differences are y_j and x_i. Sums, products and multiples of
    kernels follow by the rules of derivatives. O(n m h).

    >>> import torch
    >>> from krepes.kernels import Linear
    >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])
    >>> kernel_pull(Linear(), x, y, torch.tensor([[10.0]]))
    (tensor([[30., 40.]]), tensor([[10., 20.]]))
    """
    if isinstance(kernel, Scaled):
        return kernel_pull(kernel.kernels()[0], X, Y, kernel._factor() * G)
    if isinstance(kernel, Pair):
        left, right = kernel.kernels()
        first, second = (G * right(X, Y), G * left(X, Y)) if isinstance(kernel, Product) else (G, G)
        pulls = kernel_pull(left, X, Y, first), kernel_pull(right, X, Y, second)
        return pulls[0][0] + pulls[1][0], pulls[0][1] + pulls[1][1]
    if kernel.geometry is None:
        raise no_slope(kernel)
    GR = G * kernel.slope(X, Y)
    if kernel.geometry == "dot_product":
        return GR @ Y, GR.mT @ X
    return GR @ Y - GR.sum(1, keepdim=True) * X, GR.mT @ X - GR.sum(0)[:, None] * Y


def solved(A: Tensor, B: Tensor) -> Tensor:
    """A^-1 B for a positive definite A, with as much on its diagonal as rounding demands."""
    jitter = RELATIVE_CUT[A.dtype] * A.diagonal().mean()
    L = torch.linalg.cholesky_ex(A + jitter * torch.eye(len(A), dtype=A.dtype, device=A.device)).L
    return torch.cholesky_solve(B, L)


@dataclass(frozen=True)
class Descended:
    """Where a descent ended.

    Attributes
    ----------
    Z : Tensor of shape (m, h)
    values : f at the start and after every step, never rising.
    converged : whether progress had ended before the steps had.
    """

    Z: Tensor
    values: list[float]
    converged: bool


def tangent(Z: Tensor, V: Tensor) -> Tensor:
    """The part of V (m, h) along the spheres at Z.

    >>> tangent(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[0., 4.]])
    """
    return V - (V * Z).sum(1, keepdim=True) * Z


def descend(
    function: Function,
    Z: Tensor,  # shape: (m, h), rows of length one
    precondition: Callable[[Tensor], Tensor],
    max_iter: int,
    tol: float,
) -> Descended:
    """Minimise; ends when five steps gain less than `tol` times the value."""
    value, gradient = function(Z)
    g, values, pairs = tangent(Z, gradient), [value], Pairs()
    while len(values) <= max_iter:
        d = -tangent(Z, _quasi_newton(g, pairs, precondition))
        slope = (g * d).sum().item()
        if not slope < 0:  # at a minimum, or the pairs have gone stale
            if not pairs:
                return Descended(Z, values, True)
            pairs = []
            continue
        found = _searched(function, Z, d, value, slope)
        if found is None:
            if not pairs:
                return Descended(Z, values, True)  # rounding hides any further descent
            pairs = []
            continue
        t, Z_new, value, gradient = found
        g_new = tangent(Z_new, gradient)
        pairs = [(tangent(Z_new, s), tangent(Z_new, y)) for s, y in pairs[1 - MEMORY :]]
        s, y = tangent(Z_new, t * d), g_new - tangent(Z_new, g)
        if (s * y).sum() > 1e-10 * s.norm() * y.norm():
            pairs.append((s, y))
        Z, g = Z_new, g_new
        values.append(value)
        if len(values) > WINDOW and values[-1 - WINDOW] - value <= tol * abs(value):
            return Descended(Z, values, True)
    return Descended(Z, values, False)


def _quasi_newton(g: Tensor, pairs: Pairs, precondition: Callable[[Tensor], Tensor]) -> Tensor:
    """H g, by the two loops of L-BFGS; the first step is at most `LONGEST`."""
    if not pairs:
        d = precondition(g)
        longest = d.norm(dim=1).max().item()
        return d * min(1.0, LONGEST / longest) if longest > 0 else d
    q, shares = g.clone(), []
    for s, y in reversed(pairs):
        a = (s * q).sum() / (s * y).sum()
        q -= a * y
        shares.append(a)
    s, y = pairs[-1]
    q = precondition(q) * ((s * y).sum() / (y * precondition(y)).sum())
    for (s, y), a in zip(pairs, reversed(shares)):
        q += (a - (y * q).sum() / (s * y).sum()) * s
    return q


def _searched(
    function: Function, Z: Tensor, d: Tensor, value: float, slope: float
) -> tuple[float, Tensor, float, Tensor] | None:
    """Step length, point, value and gradient; None if no step descends."""
    t = 1.0
    for _ in range(HALVINGS):
        point = torch.nn.functional.normalize(Z + t * d, dim=1)
        found, gradient = function(point)
        if found <= value + ARMIJO * t * slope:
            return t, point, found, gradient
        t /= 2
    return None
