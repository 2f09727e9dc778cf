"""Sets of points, or of any items, compared by the kernel of their members.

    k(A, B) = mean of k(a, b) over a in A, b in B = <mu_A, mu_B>                             [smola]
    exp(-|mu_A - mu_B|^2 / (2 l^2)),   |mu_A - mu_B|^2 = k(A, A) + k(B, B) - 2 k(A, B)       [muandet]

mu_A is the mean of the members in the feature space of the inner kernel. Its distance to mu_B tells two distributions
apart, not only their means. Cost: that of the inner kernel between all members, O(|A| |B| d) for every pair of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.components import resolve
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.objects.object_kernel import ROWS, ObjectKernel
from krepes.kernels.vectors import fixed_lengthscale, medians, middle_distance

POINTS = 8192  # members of landmarks in one block
BLOCK_BYTES = 64 * 2**20
FIT_POINTS = 20_000  # from which the inner kernel learns its parameters
FIT_SETS = 200  # whose distances the median rule looks at


class MeanEmbedding(ObjectKernel):
    """The mean similarity of the members of two sets.

    Parameters
    ----------
    kernel : Kernel or its name, default="gaussian"
        Compares two members. On points, it learns its lengthscale from the points of all sets.
    lengthscale : float, "median" or None, default=None
        None takes the mean similarity itself. Otherwise a Gaussian kernel of the distance of the sets, of this
        lengthscale; "median" makes it 1/e at the median distance, "4 median" four times as long.

    Notes
    -----
    A set is an array (members, d) of points, or a list of what the inner kernel takes, such as strings. A list of
    numbers is a set of points on a line. Sets may differ in size. One without members has the mean zero; without a
    lengthscale it is similar to nothing.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> A, B = [[0.0], [2.0]], [[3.0]]
    >>> MeanEmbedding(Linear())([A], [A, B])          # products of the means, 1 and 3
    tensor([[1., 3.]], dtype=torch.float64)
    """

    name = "mean_embedding"
    known_elsewhere_as = ("mmd", "set", "bag")
    expects = "sets of points or items"

    def __init__(self, kernel: str | Kernel = "gaussian", lengthscale: float | str | None = None):
        self.kernel = kernel
        self.lengthscale = lengthscale

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        return self._inner().positive_semidefinite

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> MeanEmbedding:
        sets = self.read_all(X)
        members, _ = self._joined(sets)
        if len(members) > FIT_POINTS:
            chosen = torch.randperm(len(members), generator=generator)[:FIT_POINTS].sort().values.tolist()
            members = members[chosen] if isinstance(members, Tensor) else [members[i] for i in chosen]
        inner = self._inner().fitted(members, generator) if len(members) else self._inner()
        found = MeanEmbedding(inner, self.lengthscale)
        if isinstance(self.lengthscale, str):
            some = sets
            if len(sets) > FIT_SETS:
                some = [sets[i] for i in torch.randperm(len(sets), generator=generator)[:FIT_SETS].tolist()]
            squares = found._squares(some)
            D = _squared_distances(found._means_with(some)(some), squares, squares).sqrt_()
            found.lengthscale = medians(self.lengthscale) * middle_distance(D) / 2**0.5
        return found

    def against(self, Y: Any) -> KernelColumns:
        landmarks, length = self.read_all(Y), self._length()
        means = self._means_with(landmarks)
        right = None if length is None else self._squares(landmarks)

        def columns(X: Any) -> Tensor:
            sets = self.read_all(X)
            K = means(sets)
            if length is None or right is None:
                return K
            return _squared_distances(K, self._squares(sets), right).mul_(-0.5 / length**2).exp_()

        return columns

    def diag(self, X: Any) -> Tensor:
        sets, length = self.read_all(X), self._length()
        return self._squares(sets) if length is None else torch.ones(len(sets), dtype=torch.float64)

    def read(self, x: Any) -> np.ndarray | list[Any]:
        if self._inner().only_objects:
            if isinstance(x, list | tuple):
                return list(x)
            raise TypeError("expected a list of items.")
        if not isinstance(x, list | tuple | np.ndarray | Tensor):
            raise TypeError("expected an array of points, one row for each.")
        try:
            points = np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(
                "its members are not points of equally many numbers. Give their kernel: MeanEmbedding(Spectrum())."
            ) from None
        if points.ndim == 0 or not np.isfinite(points).all():
            raise ValueError("expected an array of finite numbers, one row for each point.")
        return points.reshape(len(points), -1 if points.size else 0)

    def stored(self, x: Any) -> object:
        return self._inner().storable(x) if self._inner().only_objects else x

    def _inner(self) -> Kernel:
        return resolve(Kernel, self.kernel)

    def _length(self) -> float | None:
        return None if self.lengthscale is None else fixed_lengthscale(self.lengthscale)

    def _joined(self, sets: Sequence[Any]) -> tuple[Any, csr_array]:
        """The members of all sets, P of them, and the matrix that takes their mean in every set, (n, P)."""
        sizes = np.array([len(members) for members in sets], dtype=np.int64)
        edges = np.concatenate([[0], sizes.cumsum()])
        weights = np.repeat(1 / np.maximum(sizes, 1), sizes)
        means = csr_array((weights, np.arange(edges[-1]), edges), shape=(len(sets), int(edges[-1])))
        if self._inner().only_objects:
            return [item for members in sets for item in members], means
        full = [members for members in sets if len(members)]
        widths = sorted({members.shape[1] for members in full})
        if len(widths) > 1:
            raise ValueError(
                f"The points of these sets have {' and '.join(map(str, widths[:3]))} coordinates; expected one number."
            )
        return torch.from_numpy(np.concatenate(full) if full else np.zeros((0, 1))), means

    def _means_with(self, landmarks: Sequence[Any]) -> Callable[[Sequence[Any]], Tensor]:
        """A function of sets: the mean similarities with the members of the landmarks, (b, m)."""
        members, means = self._joined(landmarks)
        parts = [(self._inner().against(members[p]), means[:, p]) for p in row_blocks(len(members), POINTS)]
        size = rows_within(BLOCK_BYTES, 8 * min(len(members), POINTS))

        def values(sets: Sequence[Any]) -> Tensor:
            K = np.zeros((len(sets), len(landmarks)))
            for rows in row_blocks(len(sets), ROWS):
                points, weights = self._joined(sets[rows])
                for some in row_blocks(len(points), size):
                    for block, right in parts:
                        left = weights[:, some] @ block(points[some]).double().cpu().numpy()
                        K[rows] += (right @ left.T).T
            return torch.from_numpy(K)

        return values

    def _squares(self, sets: Sequence[Any]) -> Tensor:
        """k(A, A) for every set, (n,)."""
        found = [self._means_with([members])([members]).item() if len(members) else 0.0 for members in sets]
        return torch.tensor(found, dtype=torch.float64)


def _squared_distances(K: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """k(A, A) + k(B, B) - 2 k(A, B), at least 0."""
    return K.mul(-2).add_(left[:, None]).add_(right).clamp_(min=0)
