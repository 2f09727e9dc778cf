"""Mini-batch gradient descent: for any loss, also for those that no moments suffice for  [krepes, sections 3, B.3].

    theta = (W, gamma) or (A, gamma);   Adam, cosine schedule with warm-up, early stopping on held-out rows

Cost O(b r h) per batch and view; features are computed once and kept where memory allows. Losses of moments are solved
faster and exactly by the other solvers; here they are trained as published.
"""

from __future__ import annotations

from dataclasses import dataclass

from krepes.base.components import named, resolve
from krepes.base.validation import check_choice, check_count, check_number
from krepes.losses import Loss
from krepes.losses.checking import check_loss
from krepes.solvers.samples import Samples
from krepes.solvers.sgd.coordinates import Coordinates, Landmarks, Matched, Whitened
from krepes.solvers.sgd.start import Initialization
from krepes.solvers.sgd.steps import Preconditioner, Schedule
from krepes.solvers.sgd.training import Training
from krepes.solvers.solver import Problem, Solution, Solver

MOST_REPLAYS = 10_000
OPTIONAL = ("patience", "replay_batches")
COUNTS = {"batch_size": 2} | dict.fromkeys(("max_epochs", "cache_bytes", "replays", *OPTIONAL), 1)
CHOICES: dict[str, tuple[str | None, ...]] = {
    "coordinates": ("whitened", "landmarks"),
    "optimizer": ("adam", "gradient"),
    "constraint": ("auto", None, "orthogonal"),
    "feature_dtype": ("auto", "bfloat16"),
}


@dataclass(eq=False, repr=False)
class SGD(Solver[Samples]):
    """Train on shuffled batches of samples.

    Parameters
    ----------
    batch_size : int, default=256
    learning_rate : float, default=None
        With Adam it is relative: a step of rate 1 changes embeddings by about their own size. None is the
        preconditioner's own: 0.03, and 1 for Gauss-Newton.
    max_epochs : int, default=50
    patience : int or None, default=10
        Stop after this many epochs without a lower loss on held-out rows, and return the best epoch; None never stops.
    validation_fraction : float, default=0.1
        Rows held out, 4096 at most; with fewer than 32 of them there is no early stopping.
    preconditioner : "none", "kernel", "gauss_newton" or Preconditioner, default="none"
    initialization : "principal", "moments", "kaiming" or Initialization, default="principal"
    coordinates : "whitened" or "landmarks", default="whitened"
        Train W, or A as published.
    view_matched : bool, default=False
        Compare the first view with the landmarks' first views and the second with their second, as the paper writes
        Barlow Twins; needs `views_per_landmark` = 2 and trains A.
    constraint : "auto", None or "orthogonal", default="auto"
        "orthogonal" keeps W^T W = I (A^T K_mm A = I): after every step W is replaced by the nearest such matrix. "auto"
        is what the loss needs.
    optimizer : "adam" or "gradient", default="adam"
        Plain gradient steps take `learning_rate` as it is.
    weight_decay : float, default=0
        Added to gradients by the optimizer, as in torch; not the RKHS norm, which `regularization` weighs.
    warmup_epochs : float, default=1
        The learning rate rises linearly over them, then falls along a cosine.
    min_learning_rate : float, default=1e-5
    gradient_clip : float, default=None
    fresh_views : bool, default=False
        Draw new views in every epoch and compute their features again, instead of keeping one draw.
    feature_dtype : "auto" or "bfloat16", default="auto"
        How kept features are stored; bfloat16 takes half the memory, and products are still made in float32.
    cache_bytes : int, default=2 GiB
        Features are kept if they take no more; else they are computed in windows of this size.
    replays : int, default=1
        How often an epoch trains on every row: the rows in memory are shuffled into new batches this many times
        before more are computed. It helps where features are not kept, because steps cost less than kernel values.
    replay_batches : int, default=None
        With replays, the number of batches in each stretch that is repeated; by default, everything in memory.

    Notes
    -----
    A loss that ignores scale is regularised by |w_j|^2 / variance_j instead of |w_j|^2, and its components are returned
    with unit variance. With more than two views per sample, epochs take turns with all pairs of them, or of as many
    as `cache_bytes` can hold.

    Examples
    --------
    >>> SGD(batch_size=512, preconditioner="gauss_newton")
    SGD(batch_size=512, preconditioner='gauss_newton')
    """

    name = "sgd"
    known_elsewhere_as = ("adam",)
    data = "samples"
    constraints = (None, "orthogonal")
    order = 2
    stochastic = True

    batch_size: int = 256
    learning_rate: float | None = None
    max_epochs: int = 50
    patience: int | None = 10
    validation_fraction: float = 0.1
    preconditioner: str | Preconditioner = "none"
    initialization: str | Initialization = "principal"
    coordinates: str = "whitened"
    view_matched: bool = False
    constraint: str | None = "auto"
    optimizer: str = "adam"
    weight_decay: float = 0.0
    warmup_epochs: float = 1.0
    min_learning_rate: float = 1e-5
    gradient_clip: float | None = None
    fresh_views: bool = False
    feature_dtype: str = "auto"
    cache_bytes: int = 2 * 2**30
    replays: int = 1
    replay_batches: int | None = None

    def minimised(self, problem: Problem[Samples]) -> Solution:
        data, features = problem.data, problem.data.features
        check_loss(
            problem.loss,
            max(2, min(problem.n_components, features.rank)),
            n_views=3 if data.has_negatives else None,
            dtype=features.dtype,
            device=features.F.device,
        )
        return Training(self, problem, self._coordinates(data)).run()

    def initial(self) -> Initialization:
        return resolve(Initialization, self.initialization)

    def preconditioned(self) -> Preconditioner:
        return resolve(Preconditioner, self.preconditioner)

    def schedule(self) -> Schedule:
        top = self.preconditioned().default_rate if self.learning_rate is None else self.learning_rate
        return Schedule(top, self.max_epochs, self.warmup_epochs, self.min_learning_rate)

    def check(self, problem: Problem[Samples]) -> None:
        super().check(problem)
        for name, least in COUNTS.items():
            if not (name in OPTIONAL and getattr(self, name) is None):
                check_count(name, getattr(self, name), least)
        check_number("replays", self.replays, most=MOST_REPLAYS)
        for name in ("learning_rate", "gradient_clip"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), "None or a number", above=0)
        for name in ("weight_decay", "warmup_epochs", "min_learning_rate"):
            check_number(name, getattr(self, name), least=0)
        check_number("validation_fraction", self.validation_fraction, "a share", least=0, most=0.5)
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.constraint_on(problem.loss) and problem.loss.scale_invariant:
            raise ValueError(
                f"{problem.loss} ignores scale: SGD(constraint='orthogonal') is for losses that do not."
            )
        self.initial()
        self._check_preconditioner(problem.loss)

    def _check_preconditioner(self, loss: Loss) -> None:
        chosen = self.preconditioned()
        chosen.check()
        unused = [name for name in chosen.without if getattr(self, name) != getattr(SGD(), name)]
        if unused:
            raise ValueError(
                f"Steps of preconditioner={chosen.name!r} have no use for {', '.join(unused)}: leave the default."
            )
        lacking = chosen.missing(loss)
        if lacking is not None:
            fitting = [name for name, kind in named(Preconditioner).items() if kind().missing(loss) is None]
            raise ValueError(
                f"preconditioner={chosen.name!r} needs {lacking} of the loss, which {loss} does not have. "
                f"Preconditioners that work with it: {', '.join(fitting)}."
            )

    def _coordinates(self, data: Samples) -> Coordinates:
        if self.view_matched:
            return Matched(data.features, data.landmark_views)
        return Landmarks(data.features) if self.coordinates == "landmarks" else Whitened(data.features)

    def constraint_on(self, loss: Loss) -> str | None:
        return loss.constraint if self.constraint == "auto" else self.constraint
