"""Losses as loops over samples and components, in float64: slow, obvious, and independent of the library."""

from __future__ import annotations

import math

import numpy as np


def kernel_pca(Phi, W, outside=0.0):
    """Mean squared distance of a centred feature from its reconstruction W W^T (phi - mu), plus what no W reaches."""
    Phi, W = np.asarray(Phi, float), np.asarray(W, float)
    mu = sum(Phi) / len(Phi)
    total = 0.0
    for phi in Phi:
        z = W.T @ (phi - mu)
        total += sum((phi - mu - W @ z) ** 2)
    return total / len(Phi) + outside


def simple_contrastive(Z1, Z2, negatives=None):
    """Mean of z1 . (z- - z2); without negatives, z- runs over all of Z2."""
    n = len(Z1)
    positive = sum(np.dot(Z1[i], Z2[i]) for i in range(n)) / n
    if negatives is not None:
        return sum(np.dot(Z1[i], negatives[i]) for i in range(n)) / n - positive
    return sum(np.dot(Z1[i], Z2[j]) for i in range(n) for j in range(n)) / n**2 - positive


def spectral_contrastive(Z1, Z2):
    """-2 mean z1 . z2 + mean (z . z')^2 over all pairs of the 2n embeddings of both views."""
    n, both = len(Z1), [*Z1, *Z2]
    positive = sum(np.dot(Z1[i], Z2[i]) for i in range(n)) / n
    return -2 * positive + sum(np.dot(z, other) ** 2 for z in both for other in both) / (2 * n) ** 2


def barlow_twins(Z1, Z2, redundancy, normalize, center):
    n, h = np.shape(Z1)
    Z1, Z2 = np.array(Z1, float), np.array(Z2, float)
    if center:
        Z1, Z2 = Z1 - sum(Z1) / n, Z2 - sum(Z2) / n
    C = np.zeros((h, h))
    for i in range(h):
        for j in range(h):
            C[i, j] = sum(Z1[b, i] * Z2[b, j] for b in range(n)) / n
            if normalize:
                C[i, j] /= math.sqrt(sum(Z1[:, i] ** 2) / n) * math.sqrt(sum(Z2[:, j] ** 2) / n)
    C = C if normalize else (C + C.T) / 2
    diagonal = sum((1 - C[i, i]) ** 2 for i in range(h))
    return diagonal + redundancy * sum(C[i, j] ** 2 for i in range(h) for j in range(h) if i != j)


def covariance(Z):
    mean = sum(Z) / len(Z)
    return sum(np.outer(z - mean, z - mean) for z in Z) / len(Z)


def vicreg_hinge(Z1, Z2, invariance, variance, covariance_weight):
    Z1, Z2 = np.array(Z1, float), np.array(Z2, float)
    n, h = Z1.shape
    total = invariance * sum(sum((Z1[b] - Z2[b]) ** 2) for b in range(n)) / n / h
    for Z in (Z1, Z2):
        C = covariance(Z)
        total += variance / 2 * sum(max(0.0, 1 - math.sqrt(C[j, j] + 1e-4)) for j in range(h)) / h
        total += covariance_weight / 2 * sum(C[i, j] ** 2 for i in range(h) for j in range(h) if i != j) / h
    return total


def vicreg_quadratic(Z1, Z2, beta):
    Z1, Z2 = np.array(Z1, float), np.array(Z2, float)
    n, h = Z1.shape
    C = covariance(np.concatenate([Z1, Z2]))
    apart = sum((C[i, j] - (i == j)) ** 2 for i in range(h) for j in range(h))
    return beta * sum(sum((Z1[b] - Z2[b]) ** 2) for b in range(n)) / n + apart
