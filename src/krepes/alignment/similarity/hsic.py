"""The Hilbert-Schmidt independence criterion: how much two kernels agree on which rows are alike.

    biased      HSIC_b = tr(K H L H) / (n - 1)^2,   H = I - 11^T/n                        [gretton]
    unbiased    HSIC_u = <U(K), U(L)> / (n (n - 3)), U = U-centring, diagonal left out     [song, Thm. 2]

Both are sums over rows of numbers that exist for centred kernels: with K, L centred, k and l their diagonals and
p_i = sum_j K_ij L_ij,

    (n - 1)^2 HSIC_b = sum p,     n (n - 3) HSIC_u = sum p - n/(n-2) sum kl + (sum k)(sum l)/((n-1)(n-2)),

and so are their values without row i (the jackknife), so that no loop over rows is needed. The first sum is
positive and HSIC_u(K, K) is a sum of squares: negative or undefined values in the literature come from cancellation
in uncentred float32, which cannot happen here because rows are centred in float64 first. HSIC_u(K, L) of
independent data is zero on average, so it may be negative, and is not clamped.

Cost O(n d_x d_y) for features, O(n^2) for kernel matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from krepes.alignment.similarity.augmented_grams import origin_of

ESTIMATORS = ("unbiased", "biased")


@dataclass(frozen=True)
class CentredKernel:
    """A centred kernel on n rows, of mean diagonal 1: features with K = X X^T, or the matrix itself.

    `log_size` is the logarithm of what the mean diagonal was; 0 for constant kernels.
    """

    X: np.ndarray | None  # shape: (n, d)
    K: np.ndarray | None = field(repr=False)  # shape: (n, n)
    log_size: float = 0.0

    @classmethod
    def of_features(cls, X: np.ndarray) -> CentredKernel:
        X = X - origin_of(X)
        largest = np.abs(X).max()
        if not largest > 0:
            return cls(np.zeros((len(X), 1)), None)
        X /= largest  # because fourth powers of 1e150 overflow
        X -= X.mean(axis=0)  # what rounding left of a mean that is large beside the spread
        size = np.linalg.norm(X) / np.sqrt(len(X))
        X *= 1 / size
        log_size = float(2 * (np.log(largest) + np.log(size)))
        return cls(X, None, log_size) if X.shape[1] <= len(X) else cls(None, X @ X.T, log_size)

    @classmethod
    def of_matrix(cls, K: np.ndarray) -> CentredKernel:
        largest = np.abs(K).max()
        K = K.astype(np.float64) / (largest if largest > 0 else 1.0)
        K = K - K.mean(axis=0)
        K -= K.mean(axis=1, keepdims=True)
        size = np.trace(K) / len(K)
        if not size > 1e-13:
            return cls(None, np.zeros_like(K))
        return cls(None, K / size, float(np.log(largest) + np.log(size)))

    @property
    def n(self) -> int:
        return len(self.X) if self.X is not None else len(self.matrix)

    @property
    def diagonal(self) -> np.ndarray:
        return np.einsum("ij,ij->i", self.X, self.X) if self.X is not None else self.matrix.diagonal()

    @property
    def matrix(self) -> np.ndarray:
        if self.K is not None:
            return self.K
        assert self.X is not None  # one of the two is given
        return self.X @ self.X.T

    def times(self, v: np.ndarray) -> np.ndarray:
        """K v."""
        return self.X @ (self.X.T @ v) if self.X is not None else self.matrix @ v

    def permuted(self, order: np.ndarray) -> CentredKernel:
        """The kernel of the rows in another order."""
        X = None if self.X is None else self.X[order]
        return CentredKernel(X, None if self.K is None else self.K[np.ix_(order, order)])


def total_product(K: CentredKernel, L: CentredKernel) -> float:
    """sum_ij K_ij L_ij = |X^T Y|_F^2."""
    if K.X is not None and L.X is not None:
        return float(np.square(K.X.T @ L.X).sum())
    return float(np.einsum("ij,ij->", K.matrix, L.matrix))


def row_products(K: CentredKernel, L: CentredKernel) -> np.ndarray:
    """p_i = sum_j K_ij L_ij = x_i^T (X^T Y) y_i, shape (n,)."""
    if K.X is not None and L.X is not None:
        return np.einsum("ij,ij->i", K.X @ (K.X.T @ L.X), L.X)
    return np.einsum("ij,ij->i", K.matrix, L.matrix)


def unbiased_value(n: int, products: float, diagonals: float, traces: float) -> float:
    """HSIC_u from sum p, sum kl and (sum k)(sum l) of centred kernels."""
    return (products - n / (n - 2) * diagonals + traces / ((n - 1) * (n - 2))) / (n * (n - 3))


def hsic(K: CentredKernel, L: CentredKernel, estimator: str = "unbiased") -> float:
    """The criterion of two centred kernels, each scaled to a mean diagonal of 1.

    >>> K = CentredKernel.of_features(np.array([[1.0], [-1.0], [1.0], [-1.0]]))
    >>> hsic(K, K, "biased") * 9                                     # |x^T x|^2 = 16
    16.0
    """
    n = K.n
    if estimator == "biased":
        return total_product(K, L) / (n - 1) ** 2
    k, l = K.diagonal, L.diagonal  # noqa: E741
    return unbiased_value(n, total_product(K, L), float(k @ l), k.sum() * l.sum())


def hsic_without_each(K: CentredKernel, L: CentredKernel, estimator: str = "unbiased") -> np.ndarray:
    """The criterion of all rows but one, for each of them, up to a factor that does not depend on the kernels."""
    n, k, l, p = K.n, K.diagonal, L.diagonal, row_products(K, L)  # noqa: E741
    if estimator == "biased":
        c = n / (n - 1)  # X_-i^T H Y_-i = X^T Y - c x_i y_i^T
        return p.sum() - 2 * c * p + c**2 * k * l
    diagonals = k @ l - k * l
    # Without row i the features sum to -x_i; [song, Eq. 5] of the n - 1 rows that are left, n' = n - 1.
    products = p.sum() - 2 * p + k * l - diagonals
    sums = (2 * k - k.sum()) * (2 * l - l.sum())
    mixed = p - 4 * k * l + K.times(l) + L.times(k) + k @ l
    return products + sums / ((n - 2) * (n - 3)) - 2 / (n - 3) * mixed
