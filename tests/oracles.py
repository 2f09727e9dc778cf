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


def spectral_triplets(Z1, Z2, negatives=None):
    """-2 mean z1 . z2 + mean (z1 . z-)^2; without negatives, z- is the first view of the next sample."""
    n = len(Z1)
    total = 0.0
    for i in range(n):
        negative = Z1[(i + 1) % n] if negatives is None else negatives[i]
        total += -2 * np.dot(Z1[i], Z2[i]) + np.dot(Z1[i], negative) ** 2
    return total / n


def cosine(x, y):
    return np.dot(x, y) / math.sqrt(np.dot(x, x)) / math.sqrt(np.dot(y, y))


def simclr(Z1, Z2, temperature):
    """NT-Xent: mean over both views of -log of the other view's share among all others."""
    n, both = len(Z1), [*Z1, *Z2]
    total = 0.0
    for i in range(2 * n):
        similarity = [math.exp(cosine(both[i], both[k]) / temperature) for k in range(2 * n)]
        total -= math.log(similarity[(i + n) % (2 * n)] / (sum(similarity) - similarity[i]))
    return total / (2 * n)


def byol_predictor(Z, inward, scale, shift, outward, bias):
    """Linear, standardised over the batch, scaled and shifted, ReLU, linear; unit by unit."""
    n, units = len(Z), []
    for k in range(inward.shape[1]):
        a = np.array([np.dot(z, inward[:, k]) for z in Z])
        a = (a - sum(a) / n) / math.sqrt(sum((a - sum(a) / n) ** 2) / n + 1e-6 * sum(a**2) / n)
        units.append([max(0.0, scale[k] * value + shift[k]) for value in a])
    return [sum(units[k][i] * outward[k] for k in range(len(units))) + bias for i in range(n)]


def byol(predicted_1, predicted_2, targets_1, targets_2):
    """Mean over both directions of 2 - 2 cos(prediction from one view, target of the other)."""
    n = len(predicted_1)
    first = sum(2 - 2 * cosine(predicted_1[i], targets_2[i]) for i in range(n)) / n
    return (first + sum(2 - 2 * cosine(predicted_2[i], targets_1[i]) for i in range(n)) / n) / 2


def decoder_kernel(Z, lengthscale):
    """The Gaussian kernel between embeddings on the unit sphere; z . z' where there is no lengthscale."""
    Z = [z / math.sqrt(np.dot(z, z)) for z in Z]
    if lengthscale is None:
        return np.array([[np.dot(z, y) for y in Z] for z in Z])
    return np.array([[math.exp(-sum((z - y) ** 2) / 2 / lengthscale**2) for y in Z] for z in Z])


def autoencoder_in_sample(Z, X, lam, lengthscale):
    """|Q - X|^2 + lam Tr(Q K^-1 Q^T) as Theorem 5 of Esser et al. prints it (columns are samples), over |X|^2."""
    K = decoder_kernel(Z, lengthscale)
    X = (X - sum(X) / len(X)).T
    Q = X @ np.linalg.inv(K + lam * np.eye(len(K))) @ K
    return (np.sum((Q - X) ** 2) + lam * np.trace(Q @ np.linalg.inv(K) @ Q.T)) / np.sum(X**2)


def autoencoder_left_out(Z, X, lam, lengthscale):
    """Each sample is predicted by the kernel ridge regression on all others; squared errors over |X|^2."""
    K = decoder_kernel(Z, lengthscale)
    X = X - sum(X) / len(X)
    total = 0.0
    for i in range(len(X)):
        rest = [j for j in range(len(X)) if j != i]
        weights = np.linalg.solve(K[np.ix_(rest, rest)] + lam * np.eye(len(rest)), X[rest])
        total += sum((X[i] - K[i, rest] @ weights) ** 2)
    return total / np.sum(X**2)


def off_diagonal_covariance(Z):
    """Sum of squared covariances of different components of the embeddings on the unit sphere."""
    C = covariance(np.array([z / math.sqrt(np.dot(z, z)) for z in Z]))
    return sum(C[i, j] ** 2 for i in range(len(C)) for j in range(len(C)) if i != j)
