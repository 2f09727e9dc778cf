"""Try a loss on a small random batch: what is wrong with it shows before the first epoch.

A loss has to return named scalar tensors, and they have to change when the embeddings do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from krepes.base.reporting import warn
from krepes.base.validation import check_count
from krepes.losses.batch import Batch
from krepes.losses.loss import Loss

# Names that solvers add to the history, and names of what they train
RESERVED = ("regularizer", "total", "learning_rate", "held_out", "rows_read", "jacobian_products")
TRAINED = ("P", "gamma")
FIELDS = ("X", "phi_norm_sq", "gram")  # of a batch, that a loss may need
AGREEMENT = 1e-3  # relative, between a loss and its residuals or logits
SCALES = (1.0, 0.1, 10.0)  # of the embeddings: a hinge may be flat at one of them
N_FEATURES = 5
ENDLESS = 1e100  # value that no loss has at a minimum
SIZES = (0, 0.01, 0.1, 1, 10, 100, 1000)  # of a representation, times what was found


def check_loss(
    loss: Loss,
    n_components: int = 2,
    n_rows: int | None = None,
    n_views: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> None:
    """Raise a ValueError where a loss cannot be trained, naming it and the remedy.

    Parameters
    ----------
    loss : Loss
    n_components : int, default=2
        h of the random embeddings.
    n_rows : int, default=None
        Their number; max(8, 2 h) by default, which a batch of training should not be below for losses that invert
        a covariance.
    n_views : int, default=None
        How many embeddings a batch has, negatives included; the views that the loss needs by default.
    dtype, device : of the embeddings
        As in training: a function may make its own tensors, which have to fit.

    Notes
    -----
    Exceptions that the loss itself raises come through, with a note that says how it was called. A value that is
    not finite is not an error here: it may be the random numbers' fault.

    Examples
    --------
    >>> from krepes.losses import as_loss
    >>> check_loss(as_loss("simclr"))
    >>> check_loss(as_loss(lambda Z1, Z2: torch.ones(())))
    Traceback (most recent call last):
        ...
    ValueError: The loss CallableLoss(<lambda>) does not depend on the embeddings: ...
    """
    _check_declarations(loss)
    check_count("n_components", n_components)
    rows = max(8, 2 * n_components) if n_rows is None else n_rows
    for scale in SCALES:
        batch = random_batch(loss, n_components, rows, n_views or loss.views_needed, scale, dtype, device)
        try:
            terms = loss.terms(batch)
        except Exception as error:
            shape = tuple(batch.Z[0].shape)
            error.add_note(f"While trying the loss {loss} on random embeddings of shape {shape}.")
            if loss.uses_negatives and batch.negatives is None:
                error.add_note("No negatives= were given to fit, so batch.negatives is None.")
            raise
        check_terms(terms, f"The loss {loss}")
        _check_curvature(loss, batch, sum(term.item() for term in terms.values()))
        if _moves(torch.stack(list(terms.values())).sum(), batch.Z):
            return
    raise ValueError(
        f"The loss {loss} does not depend on the embeddings: its gradient with respect to them is zero. "
        "Compute it from Z1 and Z2 with differentiable torch operations, without detach(), item(), numpy() or "
        "comparisons."
    )


def check_terms(terms: object, source: str) -> None:
    """Refuse what is not a dict of named scalar tensors; `source` begins the message."""
    expected = "expected a scalar tensor, or a dict of named scalar tensors"
    if not isinstance(terms, dict) or not terms:
        given = "an empty dict" if terms == {} else _described(terms)
        raise ValueError(f"{source} returned {given}; {expected}.")
    for name, term in terms.items():
        if not isinstance(term, Tensor) or term.ndim != 0:
            hint = "A loss is a mean over samples: .mean() is often what is missing."
            if not isinstance(term, Tensor):
                hint = "Keep to torch operations, without item(), float() or numpy(), so that it can be differentiated."
            raise ValueError(f"{source} returned {_described(term)} for {name!r}; {expected}. {hint}")
        if not isinstance(name, str) or name in RESERVED:
            raise ValueError(
                f"{source} named a term {name!r}; expected strings other than {', '.join(RESERVED)}."
            )


def _check_declarations(loss: Loss) -> None:
    """Refuse declarations of a class that cannot hold."""
    unknown = [name for name in loss.needs if name not in FIELDS]
    if unknown:
        raise ValueError(
            f"{loss}: needs={loss.needs} names {unknown[0]!r}; expected some of {', '.join(FIELDS)}."
        )
    if loss.scale_invariant and not loss.offers("column_scale"):
        raise ValueError(
            f"{loss} is scale_invariant and has no column_scale(statistics), the squared scale of its columns that "
            "the regulariser divides by. Derive from krepes.losses.DirectionLoss if only directions matter."
        )


def own_parameters(loss: Loss, n_components: int, generator: torch.Generator) -> dict[str, Tensor]:
    """The parameters that a loss brings along; none where it has none."""
    if not loss.offers("parameters"):
        return {}
    own = loss.parameters(n_components, generator)
    if not isinstance(own, dict) or not all(isinstance(value, Tensor) for value in own.values()):
        raise ValueError(f"{loss}.parameters returned {_described(own)}; expected a dict of named tensors.")
    taken = [name for name in own if name in TRAINED or not isinstance(name, str)]
    if taken:
        raise ValueError(
            f"{loss} has a parameter {taken[0]!r}; expected strings other than {' and '.join(TRAINED)}, "
            "the names of the representation."
        )
    return own


def _check_curvature(loss: Loss, batch: Batch, total: float) -> None:
    """Residuals and logits, where a loss has them, have to give its value."""
    found = {}
    with torch.no_grad():
        if loss.offers("residuals"):
            found["|residuals|^2"] = loss.residuals(batch).square().sum().item()
        if loss.offers("logits"):
            values, targets = loss.logits(batch)
            found["the cross-entropy of its logits"] = cross_entropy(values, targets).item()
    for name, value in found.items():
        if abs(value - total) > AGREEMENT * max(abs(total), abs(value)):
            raise ValueError(
                f"The loss {loss} is {total:.6g} on a random batch and {name} {value:.6g}: they have to be equal, or "
                "Gauss-Newton steps would belong to another loss."
            )


def random_batch(
    loss: Loss,
    n_components: int,
    n_rows: int,
    n_views: int,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Batch:
    """A batch with everything in it that a loss may read; views of a row are correlated. The same in every call."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def leaf(value: Tensor) -> Tensor:
        return value.detach().to(device, dtype).requires_grad_()

    signal = normal(n_rows, n_components)
    views = [scale * (signal + normal(n_rows, n_components)) for _ in range(2 * n_views)]
    W = normal(n_components + 1, n_components)
    own = own_parameters(loss, n_components, generator)
    return Batch(
        tuple(leaf(view) for view in views[:n_views]),
        X=normal(n_rows, N_FEATURES).to(device, dtype),
        phi_norm_sq=normal(n_rows).square().to(device, dtype),
        gram=leaf(W.mT @ W),
        target_Z=tuple(view.to(device, dtype) for view in views[n_views:]),
        parameters={name: leaf(value) for name, value in own.items()},
    )


def _moves(total: Tensor, Z: tuple[Tensor, ...]) -> bool:
    """Whether the gradient with respect to any view is anything but zero (NaN included)."""
    if not total.requires_grad:
        return False
    gradients = torch.autograd.grad(total, Z, allow_unused=True)
    return any(gradient is not None and bool((gradient != 0).any()) for gradient in gradients)


def _described(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def warn_of_size(loss: Loss, total: Callable[[float], float]) -> None:
    """Warn of a loss, `total(c)` at c times what was found, that falls without end or is least at one point."""
    if loss.scale_invariant:
        return
    with torch.no_grad():
        sizes = [total(c) for c in SIZES]
    here, falls = sizes[3], [later < earlier for earlier, later in pairwise(sizes)]
    if not -ENDLESS < here < ENDLESS or (all(falls[3:]) and sizes[-1] < min(0.0, here - abs(here))):
        warn(
            f"The loss {loss} is {here:.3g}, and {sizes[-1]:.3g} for a representation {SIZES[-1]:,} times as large: it "
            "has no lower bound, and the result is where the solver stopped. Bound the loss, or raise regularization."
        )
    elif not any(falls[:3]):
        warn(
            f"The loss {loss} is {here:.3g}, and {sizes[0]:.3g} where all rows are one point: its minimum is a "
            "representation that has collapsed. Add a term that keeps rows apart, such as the variance of VICReg."
        )
