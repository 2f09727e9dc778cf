"""Is my similarity a kernel? What `check_kernel` says of three functions, and what a model does with the bad one."""

import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import train_test_split

from krepes import KernelEmbedding, check_kernel
from krepes.kernels import Gaussian

X, digits = load_digits(return_X_y=True)


def neighbours(A, B):
    """1 for images that are near, 0 for all others: a similarity, but not a kernel."""
    return (torch.cdist(A, B) < 30).double()


def overlap(A, B):
    """The ink that two images share, pixel by pixel: sum_j min(a_j, b_j), a kernel."""
    return torch.minimum(A[:, None], B).sum(2)


for kernel in (Gaussian(5.0), overlap, neighbours):
    print(check_kernel(kernel, X, n_rows=300), end="\n\n")

# The proof can be checked by hand: coefficients a of a few rows with a^T K a < 0.
proof = check_kernel(neighbours, X, n_rows=300).negative
rows = torch.as_tensor(X[list(proof.rows)])
print(neighbours(rows, rows).numpy(), "a =", np.round(proof.coefficients, 3), end="\n\n")

# What to do: use the similarities to some rows as columns. Their inner product is a kernel, whatever they are.
train, test, y_train, y_test = train_test_split(X, digits, train_size=400, random_state=0)
landmarks = torch.as_tensor(train[:200])


def like_the_same_rows(A, B):
    return neighbours(A, landmarks.to(A)) @ neighbours(B, landmarks.to(B)).T


for kernel in (neighbours, like_the_same_rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = KernelEmbedding(50, kernel=kernel, loss="kernel_pca", n_landmarks=200, random_state=0).fit(
            train
        )
    probe = RidgeClassifierCV().fit(model.transform(train), y_train)
    accuracy = probe.score(model.transform(test), y_test)
    print(f"{kernel.__name__:20} a kernel: {check_kernel(kernel, X).ok!s:6} accuracy {accuracy:.2f}")
    for warning in caught:
        print("  warned:", str(warning.message)[:150], "...")
