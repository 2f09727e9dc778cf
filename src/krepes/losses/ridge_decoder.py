"""The best decoder of given embeddings is kernel ridge regression: its errors, from one Cholesky factor.

    min over Q of  |X - Q|^2 + lam tr(Q^T K^-1 Q)  =  lam tr(X^T G X) = lam |L^-1 X|^2,    G = (K + lam I)^-1
    X - Q = lam G X,      X_i - Q_(-i)(z_i) = [G X]_i / G_ii, the error of the decoder of all others

K (n, n) is the decoder's kernel on the embeddings, Q = K G X (n, d) the reconstruction [esser, Thm. 5]. This is the one
home of these formulas: `loss="autoencoder"` takes them on batches, `KernelAutoencoder` on all rows. O(n^2 (n + d)).
"""

from __future__ import annotations

import torch
from torch import Tensor


def decoder_factor(K: Tensor, lam: float) -> Tensor:
    """L, lower triangular, with L L^T = K + lam I."""
    return torch.linalg.cholesky_ex(K + lam * torch.eye(len(K), dtype=K.dtype, device=K.device)).L


def in_sample_errors(L: Tensor, X: Tensor, lam: float) -> Tensor:
    """lam^(1/2) L^-1 X (n, d): its squared length is the decoder's part of the objective, penalty included.

    >>> L = decoder_factor(torch.eye(2), 1.0)          # embeddings at right angles, lam = 1
    >>> round(in_sample_errors(L, torch.tensor([[-1.0], [1.0]]), 1.0).square().sum().item(), 6)
    1.0
    """
    return lam**0.5 * torch.linalg.solve_triangular(L, X, upper=False)


def left_out_errors(L: Tensor, X: Tensor) -> Tensor:
    """[G X]_i / G_ii (n, d): what the decoder of all other rows leaves of each."""
    # Not torch.cholesky_inverse, whose forward-mode derivative is wrong in torch 2.13.
    G = torch.cholesky_solve(torch.eye(len(L), dtype=L.dtype, device=L.device), L)
    return G @ X / G.diagonal()[:, None]
