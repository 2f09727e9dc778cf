"""
Is my similarity a kernel?
==========================

Not every similarity is a kernel. ``check_kernel`` looks for a proof against it, and tells you what you can do.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

from krepes import check_kernel
from krepes.kernels import Gaussian

X = load_digits().data


def overlap(A, B):
    """The ink that two images share: a kernel."""
    return torch.minimum(A[:, None], B).sum(2)


def neighbours(A, B):
    """1 for images that are near, 0 for all others: a similarity, but not a kernel."""
    return (torch.cdist(A, B) < 30).double()


# %%
# A kernel never gives a matrix with negative eigenvalues, whatever the rows are.
found = {"Gaussian": Gaussian(20.0), "overlap": overlap, "neighbours": neighbours}
for name, kernel in found.items():
    print(f"{name:11s} passes: {check_kernel(kernel, X, n_rows=300).ok}")

# %%
# The proof against ``neighbours`` can be checked by hand: three images, of which two are both near the third but not
# near each other. With these coefficients a, the sum aᵀKa is negative.
proof = check_kernel(neighbours, X, n_rows=300).negative
rows = torch.as_tensor(X[list(proof.rows)])
K, a = neighbours(rows, rows).numpy(), np.array(proof.coefficients)
print(K, "a =", a.round(2), f"aᵀKa = {a @ K @ a:.2f}")

# %%
# A way out: use the similarities to some fixed rows as columns. Their inner product is always a kernel.
fixed = torch.as_tensor(X[:200])


def like_the_same_rows(A, B):
    return neighbours(A, fixed.to(A)) @ neighbours(B, fixed.to(B)).T


found["neighbours,\nmended"] = like_the_same_rows
print(f"mended      passes: {check_kernel(like_the_same_rows, X, n_rows=300).ok}")

# %%
# The eigenvalues of each matrix, relative to the largest. Negative ones are orange.
plt.style.use("tableau-colorblind10")
sample = torch.as_tensor(X[:300])
figure, axes = plt.subplots(1, 4, figsize=(9, 2.9), sharey=True, layout="constrained")
for axis, (name, kernel) in zip(axes, found.items()):
    values = np.linalg.eigvalsh(np.asarray(kernel(sample, sample)))[::-1]
    colours = np.where(values < -1e-9 * values[0], "C1", "C0")
    axis.scatter(np.arange(300), values / values[0], s=9, c=colours)
    axis.axhline(0, color="C2", linewidth=1)
    axis.set_yscale("symlog", linthresh=1e-3)
    axis.set(title=name, xlabel="number")
axes[0].set_ylabel("eigenvalue, relative")
plt.show()
