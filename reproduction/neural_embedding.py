"""The neural baseline: a network trained end to end with the loss that a kernel model is fitted with.

    z = V f(x; theta) + c,      theta, V, c trained by Adam on batches of two fresh views        [krepes, Table 1, NN]

Same inputs, same views, same loss, same probe as KernelEmbedding, so that the two columns of the paper's Table 1 differ
in the model alone. Rows are held in memory.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from krepes.base.blocks import Placement, row_blocks
from krepes.base.random_streams import stream_key
from krepes.base.reporting import Progress, display
from krepes.base.rows import dense
from krepes.base.validation import check_choice, check_count, check_number
from krepes.features.choices import choose_views
from krepes.losses import Loss, as_loss
from krepes.losses.batch import Batch
from krepes.losses.checking import own_parameters
from krepes.networks import Network, as_network
from krepes.preprocessing import Normalize, TableEncoder
from krepes.preprocessing.preparing import Sampling, check_same_input, input_record, is_series, prepare_inputs
from krepes.solvers.sgd.steps import Schedule
from krepes.sources import Source, open_source
from krepes.views import Views

logger = logging.getLogger("krepes")

CANDIDATES = 10_000  # rows that the input space is learned from
READ_ROWS = 4096
ORDER, FRESH = range(2)  # purposes of random streams


@dataclass(eq=False, repr=False)
class NeuralEmbedding(TransformerMixin, BaseEstimator):
    """Self-supervised training of a network, all parameters, as a scikit-learn transformer.

    Parameters
    ----------
    n_components : int, default=64
        h: outputs of a linear layer on the network's features.
    network : str, Network or torch.nn.Module, default="resmlp"
        A module is copied; training starts from its weights.
    loss : str or Loss, default="barlow_twins"
        Any loss of views; those that are defined by the feature space of a kernel are refused.
    views : str or Views, default="auto"
    preprocess : default="auto"
    max_epochs : int, default=20
        0 leaves the network as it is: with `output="features"` a baseline without training.
    batch_size : int, default=256
    learning_rate : float, default=1e-3
        The highest learning rate of Adam: it rises for one epoch, then falls like a cosine.
    weight_decay : float, default=1e-6
    output : "embedding" or "features", default="embedding"
        What `transform` returns: z, or the network's features below the last linear layer.
    dtype : "float32" or "float64"
    device : str, default="auto"
    random_state : int or None
    verbose : bool, default=False

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network with its linear layer, in eval mode.
    history_ : list of dicts
        The mean of every term of the loss, by epoch.

    Examples
    --------
    >>> from krepes.networks import MLP
    >>> X = np.random.default_rng(0).standard_normal((200, 5)).astype(np.float32)
    >>> model = NeuralEmbedding(4, network=MLP(widths=(32,)), max_epochs=3, random_state=0).fit(X)
    >>> model.transform(X).shape, model.history_[-1]["loss"] < model.history_[0]["loss"]
    ((200, 4), True)
    """

    n_components: int = 64
    network: str | Network | nn.Module = "resmlp"
    loss: str | Loss | Callable = "barlow_twins"
    views: str | Views | None = "auto"
    preprocess: str | TableEncoder | Normalize | None = "auto"
    max_epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    output: str = "embedding"
    dtype: str = "float32"
    device: str = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # the `dtype` parameter decides
        return tags

    def fit(self, X: Any, y: Any = None) -> NeuralEmbedding:
        """Train on unlabelled rows; y is ignored."""
        self._check()
        source = open_source(X)
        if source.n_rows < 2:
            raise ValueError(f"Found {source.n_rows} sample(s); a minimum of 2 samples is required to fit.")
        self.loss_ = _checked_loss(as_loss(self.loss))
        self.placement_ = Placement.of(self.dtype, self.device)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(self.seed_)
        progress = display(self.verbose)
        series = is_series(self.preprocess)
        views = choose_views(self.views, source, self.loss_.views_needed, paired=False, series=series)
        space, candidates = prepare_inputs(
            source, self.preprocess, Sampling(CANDIDATES, self.seed_, progress=progress), self.placement_
        )
        vars(self).pop("feature_names_in_", None)
        for name, value in input_record(X, space).items():
            setattr(self, name, value)
        self.input_space_ = space
        self.views_ = views.fitted(candidates.rows, generator, groups=space.groups)
        network = self._network(dense(candidates.rows)[:2], generator)
        rows = torch.cat(list(self._rows(space.selected(source))))
        self.history_ = self._train(network, rows, generator, progress)
        self.network_ = network.eval()
        self.n_iter_ = self.max_epochs
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Embeddings (n, h), or features, of rows."""
        check_is_fitted(self)
        check_same_input(self, X, self.input_space_)
        network = self.network_ if self.output == "embedding" else self.network_[0]
        with torch.no_grad():
            parts = [
                network(rows[block]).cpu()
                for rows in self._rows(self.input_space_.open(X))
                for block in row_blocks(len(rows), self.batch_size)
            ]
        return torch.cat(parts).numpy()

    # Before the first step

    def _check(self) -> None:
        for name, least in (("n_components", 1), ("max_epochs", 0), ("batch_size", 2)):
            check_count(name, getattr(self, name), least)
        check_number("learning_rate", self.learning_rate, above=0)
        check_choice("output", self.output, ("embedding", "features"))

    def _network(self, sample: Tensor, generator: torch.Generator) -> nn.Sequential:
        body = copy.deepcopy(as_network(self.network).build(tuple(sample.shape[1:]), generator))
        body.to(sample).eval()
        with torch.no_grad():
            width = body(sample).reshape(len(sample), -1).shape[1]
        head = nn.Linear(width, self.n_components)
        with torch.no_grad():
            head.weight.normal_(std=width**-0.5, generator=generator)
            head.bias.zero_()
        return nn.Sequential(nn.Sequential(body, nn.Flatten()), head).to(sample)

    def _rows(self, source: Source) -> Iterator[Tensor]:
        for _, batch in source.batches(READ_ROWS):
            yield dense(self.input_space_.tensor(batch, self.placement_.dtype, self.placement_.device))

    # Training

    def _train(
        self, network: nn.Sequential, rows: Tensor, generator: torch.Generator, progress: Progress
    ) -> list[dict[str, float]]:
        own = {
            name: value.to(rows).requires_grad_(True)
            for name, value in own_parameters(self.loss_, self.n_components, generator).items()
        }
        decay = self.loss_.target_decay
        target = None if decay is None else copy.deepcopy(network).eval()
        network.train()
        parameters = [p.requires_grad_(True) for p in network.parameters()]
        optimizer = torch.optim.Adam(
            [*parameters, *own.values()], lr=self.learning_rate, weight_decay=self.weight_decay
        )
        schedule = Schedule(1.0, self.max_epochs)
        n = len(rows)
        size = min(self.batch_size, n)
        starts = range(0, n - size + 1, size)
        history = []
        with progress.stage("Training", self.max_epochs * n) as stage:
            for epoch in range(self.max_epochs):
                generated = np.random.default_rng(stream_key(self.seed_, ORDER, epoch))
                order, sums = torch.from_numpy(generated.permutation(n)), Counter[str]()
                for step, start in enumerate(starts):
                    chosen = order[start : start + size]
                    rate = schedule.rate(epoch + (step + 1) / len(starts))
                    optimizer.param_groups[0]["lr"] = self.learning_rate * rate
                    optimizer.zero_grad(set_to_none=True)
                    batch = self._batch(network, target, own, rows[chosen.to(rows.device)], chosen, epoch)
                    terms = self.loss_.terms(batch)
                    total = torch.stack(list(terms.values())).sum()
                    total.backward()
                    optimizer.step()
                    if target is not None and decay is not None:
                        _follow(target, network, decay)
                    sums.update({name: value.item() for name, value in {"loss": total, **terms}.items()})
                    stage.advance(size)
                history.append({name: value / len(starts) for name, value in sums.items()})
                listed = ", ".join(f"{name} {value:.4g}" for name, value in history[-1].items())
                logger.info("epoch %d: %s", epoch + 1, listed)
                if not all(bool(weights.isfinite().all()) for weights in network.parameters()):
                    raise ValueError(
                        f"Loss or weights are not finite in epoch {epoch + 1} ({listed}): "
                        f"lower learning_rate={self.learning_rate}."
                    )
        return history

    def _batch(
        self,
        network: nn.Module,
        target: nn.Module | None,
        own: dict[str, Tensor],
        rows: Tensor,
        indices: Tensor,
        epoch: int,
    ) -> Batch:
        seed = stream_key(self.seed_, FRESH, epoch)
        if self.loss_.views_needed == 1:
            views = [rows]
        else:
            views = [dense(self.views_.drawn(rows, indices, seed, index)) for index in range(2)]
        Z = network(torch.cat(views)).chunk(len(views))
        target_Z = None
        if target is not None:
            with torch.no_grad():
                target_Z = target(torch.cat(views)).chunk(len(views))
        X = rows.flatten(1) if "X" in self.loss_.needs else None
        return Batch(Z, X=X, target_Z=target_Z, parameters=own)


def _checked_loss(loss: Loss) -> Loss:
    if set(loss.needs) - {"X"} or loss.constraint is not None or loss.uses_negatives:
        raise ValueError(
            f"{type(loss).__name__} is not a loss for networks here, because it needs a kernel's feature space, "
            "constrains W or takes negatives: use barlow_twins, vicreg, simclr or byol."
        )
    return loss


def _follow(target: nn.Module, network: nn.Module, decay: float) -> None:
    """theta_t <- decay theta_t + (1 - decay) theta; buffers are copied."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), network.parameters()):
            old.lerp_(new, 1 - decay)
        for kept, now in zip(target.buffers(), network.buffers()):
            kept.copy_(now)
