"""How kernel values pull at the points between which they are taken.

    f = sum_ij G_ij k(x_i, y_j),     df/dx_i = -sum_j G_ij R_ij (x_i - y_j),   df/dy_j = sum_i G_ij R_ij (x_i - y_j)

R is the kernel's `slope`; for kernels of x.y the differences are y_j and x_i. Sums, products and multiples of kernels
follow by the rules of derivatives. O(n m h).
"""

from __future__ import annotations

from torch import Tensor

from krepes.kernels import Kernel
from krepes.kernels.kernel import Pair, Product, Scaled, no_slope

Pulls = tuple[Tensor, Tensor]  # df/dX (n, h) and df/dY (m, h)


def kernel_pull(kernel: Kernel, X: Tensor, Y: Tensor, G: Tensor) -> Pulls:
    """The gradients of sum_ij G_ij k(x_i, y_j); X (n, h), Y (m, h), G (n, m).

    >>> import torch
    >>> from krepes.kernels import Linear
    >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])
    >>> kernel_pull(Linear(), x, y, torch.tensor([[10.0]]))
    (tensor([[30., 40.]]), tensor([[10., 20.]]))
    """
    if isinstance(kernel, Scaled):
        return kernel_pull(kernel._inner(), X, Y, kernel._factor() * G)
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
