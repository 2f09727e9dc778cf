"""The whole fit against the same loss trained by mini-batch Adam, until both probe equally well.

    python benchmarks/against_adam.py [--rows 20000] [--landmarks 1000] [--loss spectral_contrastive]

Both start from the same landmarks, kernel and regularisation. Adam works on A, the coefficients of the landmarks, as
published, or on W in whitened coordinates, A = F W, which is krepes' own preconditioning and its strongest form;
from the principal component initialisation, with batches of 256, a cosine schedule, the best of several learning
rates (chosen by probe accuracy after three epochs; not timed), and at most 50 epochs. Each runs twice:

    fresh     every epoch draws new augmentations and computes new kernel blocks, as neural networks do
    cached    the features of one draw of two views are computed once and kept (n r numbers a view)

Time to the probe accuracy of the krepes fit, minus 0.1 points; the probes themselves are not timed.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
from recording import data_file, record
from sklearn.linear_model import RidgeClassifier
from torch import Tensor

from krepes import KernelEmbedding
from krepes.base.components import resolve
from krepes.landmarks import NystromMap
from krepes.losses import Batch, Loss

BATCH, EPOCHS, RATES = 256, 50, (1e-4, 1e-3, 1e-2, 3e-2, 1e-1)


def in_features(A: Tensor, features: NystromMap) -> Tensor:
    """W = F^+ A, to probe coefficients of both forms in the same way."""
    return torch.linalg.pinv(features.F.double()) @ A.double()


class Probe:
    """Accuracy of a ridge classifier on 10 % of the labels: fast and deterministic."""

    def __init__(self, clean: Tensor, y: np.ndarray, test: Tensor, y_test: np.ndarray):
        self.clean, self.test, self.y_test = clean, test, y_test
        self.rows = np.random.default_rng(0).permutation(len(y))[: len(y) // 10]
        self.y = y[self.rows]

    def __call__(self, W: Tensor) -> float:
        W = W.detach().float()
        train, test = (self.clean[self.rows] @ W).numpy(), (self.test @ W).numpy()
        scale = train.std()
        return RidgeClassifier(alpha=1.0).fit(train / scale, self.y).score(test / scale, self.y_test)


class Adam:
    """Mini-batch training of W or of A, timed without its probes."""

    def __init__(self, model: KernelEmbedding, X: Tensor, lam: float, loss: Loss, whitened: bool):
        self.model, self.X, self.lam, self.loss, self.whitened = model, X, lam, loss, whitened
        features = model.features_
        self.inputs = features if whitened else features.kernel_block
        self.start = features.principal(model.n_components).float()
        self.K_mm = model.kernel_(model.landmarks_)
        if not whitened:
            self.start = features.coefficients(self.start).float()
        self.cached: list[Tensor] | None = None

    def cache(self) -> float:
        """Keep the inputs of one draw of two views; returns the seconds it took."""
        begin = time.perf_counter()
        drawn = [self.model.views_(self.X[b], b, 0) for b in torch.arange(len(self.X)).split(2048)]
        self.cached = [torch.cat([self.inputs(views[v]) for views in drawn]) for v in range(2)]
        return time.perf_counter() - begin

    def batch(self, rows: Tensor, epoch: int) -> list[Tensor]:
        if self.cached is not None:
            return [values[rows] for values in self.cached]
        return [self.inputs(view) for view in self.model.views_(self.X[rows], rows, 1000 + epoch)]

    def norm(self, P: Tensor) -> Tensor:
        return P.square().sum() if self.whitened else (P * (self.K_mm @ P)).sum()

    def train(self, rate: float, probe: Probe, target: float, epochs: int):
        P = self.start.clone().requires_grad_()
        optimiser = torch.optim.Adam([P], lr=rate)
        steps = EPOCHS * math.ceil(len(self.X) / BATCH)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=1e-5)
        generator = torch.Generator().manual_seed(0)
        spent, best = 0.0, 0.0
        for epoch in range(epochs):
            begin = time.perf_counter()
            for rows in torch.randperm(len(self.X), generator=generator).split(BATCH):
                Z = tuple(values @ P for values in self.batch(rows, epoch))
                value = sum(self.loss.terms(Batch(Z)).values()) + self.lam * self.norm(P)
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                schedule.step()
            spent += time.perf_counter() - begin
            W = P.detach() if self.whitened else in_features(P.detach(), self.model.features_)
            best = max(best, probe(W) if torch.isfinite(W).all() else 0.0)
            if best >= target:
                break
        return spent, best, epoch + 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--components", type=int, default=128)
    parser.add_argument("--loss", default="spectral_contrastive")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = np.load(data_file("mnist.npz"))
    pixels, y = data["X"], data["y"]
    X = torch.from_numpy(pixels[: args.rows]).float() / 255
    test = torch.from_numpy(pixels[60_000:]).float() / 255
    figures: dict = {"rows": args.rows, "landmarks": args.landmarks, "h": args.components, "loss": args.loss}
    start = time.perf_counter()
    model = KernelEmbedding(
        args.components,
        loss=args.loss,
        views="image",
        n_landmarks=args.landmarks,
        scale="loss",
        random_state=0,
    ).fit(X)
    figures["krepes, everything: seconds"] = round(time.perf_counter() - start, 2)
    clean = torch.cat([model.features_(block) for block in X.split(2048)])
    probe = Probe(
        clean, y[: args.rows], torch.cat([model.features_(b) for b in test.split(2048)]), y[60_000:]
    )
    reached = probe(in_features(model._solved().A, model.features_))
    figures["krepes: probe accuracy"] = round(reached, 4)
    figures["principal components of the landmarks: probe accuracy"] = round(
        probe(model.features_.principal(args.components)), 4
    )
    lam = model.regularization * model.moments_.S.trace().item() / model.rank_
    loss, target = resolve(Loss, args.loss), reached - 0.001
    for form, whitened in (("A, as published", False), ("W, whitened", True)):
        adam = Adam(model, X, lam, loss, whitened)
        caching = adam.cache()
        rates = {rate: adam.train(rate, probe, 1.0, 3)[1] for rate in RATES}
        rate = max(rates, key=rates.__getitem__)
        figures[f"Adam on {form}: learning rate"] = rate
        for name in ("cached features", "fresh views"):
            spent, best, epochs = adam.train(rate, probe, target, EPOCHS)
            spent += caching if adam.cached is not None else 0.0
            adam.cached = None
            key = f"Adam on {form}, {name}"
            figures[f"{key}: seconds"] = round(spent, 2)
            figures[f"{key}: epochs"] = epochs
            figures[f"{key}: probe accuracy"] = round(best, 4)
            figures[f"{key}: reached it"] = best >= target
            figures[f"times faster than {key}"] = round(spent / figures["krepes, everything: seconds"], 1)
    record(f"against_adam_{args.loss}", figures)


if __name__ == "__main__":
    main()
