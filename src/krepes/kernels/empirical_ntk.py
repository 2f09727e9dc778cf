"""The empirical neural tangent kernel of a network with one output  [krepes, App. A; jacot].

    k(x, y) = < df(x)/dtheta, df(y)/dtheta >,    f(x) = head . network(x), the head random and seeded

Three ways to the same number, by cost:

    full        per-sample gradients by torch.func; P numbers a sample: the definition, for small networks
    factored    exact, layer by layer from activations and output gradients; no gradient of the network is formed
    sketch      D random combinations of the gradient, from the factors: k(x, y) is estimated within about
                |x'| |y'| sqrt(2 / D), x' the gradient, and a block of kernel values is one matrix product

The kernel with C outputs is close to I_C (x) k where outputs are random [krepes, App. A], so one output is enough.
"""

from __future__ import annotations

import copy
import math
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from sklearn.base import clone
from torch import Tensor, nn

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.components import External, named_parts
from krepes.base.reporting import warn
from krepes.base.storage.packing import digest
from krepes.base.validation import as_array, as_numbers, check_choice, writable
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.tangent import exact
from krepes.kernels.tangent.capture import Gradients, NotFactoredError, ScalarNetwork, check_frozen
from krepes.kernels.tangent.feature_cache import FeatureCache
from krepes.kernels.tangent.sketch import Sketch, shared_out
from krepes.networks import Network, as_network
from krepes.networks.tokens import EXACT, embeds_tokens, looked_up

METHODS = ("auto", "full", "factored", "sketch")
# numbers per landmark, beyond which "auto" sketches: 2 GB for 2000 landmarks
MOST_KEPT = 250_000
# rows, their version, their features
Last = tuple[weakref.ReferenceType[Tensor], int, Tensor]
BATCH_BYTES = 256 * 2**20
LARGEST_SKETCH = 2**20
BUILDING = threading.RLock()
SHARE_ROWS = 16  # from which the layers' parts of the gradient are found


@dataclass(eq=False, repr=False)
class EmpiricalNTK(Kernel):
    """The tangent kernel of any torch module.

    Parameters
    ----------
    network : str, Network or torch.nn.Module, default="resmlp"
        A module maps rows to (b, features) or to one output, in eval mode; it is copied, never changed. Where its
        first layer is an embedding of tokens (`nn.Embedding`), rows are numbers of tokens (n, T).
    head : "auto", "random" or None, default="auto"
        A random linear output on the features. "auto" puts one where the network has more than one output.
    parameters : list of str or "trainable", default=None
        Patterns of the names of parameters that count, such as ["layer4.*", "head.weight"]. All by default, frozen
        ones too (`requires_grad=False`); "trainable" leaves these out.
    method : "auto", "full", "factored" or "sketch", default="auto"
        Factored where its landmarks' side is affordable, else sketched; full where the gradient of a layer has no
        factors.
    sketch_size : int, default=4096
        D.
    normalize : bool, default=True
        k(x, y) / sqrt(k(x, x) k(y, y)): gradients of different samples differ in length by large factors.
    seed : int, default=None
        The seed of the network's start values, head and sketch; None draws one when the model is fitted.
    cache : path, default=None
        A folder in which sketched features are kept on disk for the next fit on the same data.

    Notes
    -----
    A model file holds the weights of a network given by name. Your own module has to be given again:
    `krepes.load(path, kernel=module)`.

    Examples
    --------
    f(x) = w x at w = 3 has the gradient x, so k(x, y) = x y:

    >>> network = torch.nn.Linear(1, 1, bias=False)
    >>> kernel = EmpiricalNTK(network, normalize=False, method="factored")
    >>> kernel(torch.tensor([[2.0], [5.0]]), torch.tensor([[3.0]]))
    tensor([[ 6.],
            [15.]])
    """

    name = "empirical_ntk"
    component_kinds = {"network": Network}
    known_elsewhere_as = ("ntk", "entk", "tangent")
    external = "network"
    paths = ("cache",)

    network: str | Network | torch.nn.Module | Callable[..., Any] = "resmlp"
    head: str | None = "auto"
    parameters: list[str] | str | None = None
    method: str = "auto"
    sketch_size: int = 4096
    normalize: bool = True
    seed: int | None = None
    cache: str | os.PathLike[str] | None = None

    weights: dict[str, Tensor] | None = field(init=False)
    input_shape: list[int] = field(init=False)
    chosen_method: str = field(init=False)
    sketch_widths: dict[str, int] | None = field(init=False)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `network__depth=...` is for the network, also if it was given by name."""
        return super().set_params(**named_parts(self, self.component_kinds, params))

    def __sklearn_clone__(self) -> EmpiricalNTK:
        """Shares the network: frozen weights need no second copy."""
        return type(self)(**self.get_params(deep=False))

    def __getstate__(self) -> dict[str, Any]:
        scratch = ("_last", "_ready")  # made again when they are needed
        return {name: value for name, value in super().__getstate__().items() if name not in scratch}

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> EmpiricalNTK:
        """A kernel with its network built, its method chosen and its weights at hand."""
        rows = _as_inputs(X)
        result = self.__sklearn_clone__()
        if result.seed is None:
            result.seed = int(torch.randint(0, 2**31 - 1, (1,), generator=generator).item())
        result._build(rows)
        return result

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._ready = threading.local()

    # Building

    def _build(self, rows: Tensor) -> None:
        self._check()
        seed = 0 if self.seed is None else self.seed
        if isinstance(self.network, nn.Module):
            module = self.network
            check_frozen(module)
            self.weights = None
            self._tokens = self.takes_tokens and not _takes_numbers(module, rows[:1])
        else:
            self._tokens = False
            network: Network = as_network(self.network)
            known = getattr(self, "weights", None)
            if known is not None:
                # the file it came from need not be here
                network = clone(network).set_params(weights=None)
            module = network.build(tuple(rows.shape[1:]), torch.Generator().manual_seed(seed))
            if known is None:
                self.weights = {name: value.clone() for name, value in module.state_dict().items()}
            else:
                try:
                    module.load_state_dict(known)
                except RuntimeError as error:
                    raise ValueError(f"The weights of {self.network} do not fit it: {error}") from error
        self.input_shape = list(rows.shape[1:])
        self._scalar = ScalarNetwork(module, self._head(module, rows, seed), self.parameters, self._tokens)
        self._ready = threading.local()
        self.chosen_method = self._chosen_method(rows)
        if self.chosen_method == "sketch" and getattr(self, "sketch_widths", None) is None:
            self.sketch_widths = shared_out(self._own(rows).gradients(rows[:SHARE_ROWS]), self.sketch_size)
        self._sketch = Sketch(self.sketch_size, seed, getattr(self, "sketch_widths", None))
        # a model file names no folder
        folder = None if isinstance(self.cache, External) else self.cache
        self._cache = None if folder is None else FeatureCache(folder, self._fingerprint())
        self._built = True

    @property
    def takes_tokens(self) -> bool:  # type: ignore[override]
        return isinstance(self.network, nn.Module) and embeds_tokens(self.network)

    def _check(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("head", self.head, ("auto", "random", None))
        if not 2 <= self.sketch_size <= LARGEST_SKETCH or self.sketch_size % 2:
            raise ValueError(
                f"sketch_size={self.sketch_size!r}: expected an even number from 2 to {LARGEST_SKETCH:,}."
            )

    def _head(self, module: nn.Module, rows: Tensor, seed: int) -> Tensor | None:
        try:
            Z = _output_of(module, rows[:1], self._tokens).reshape(1, -1)
        except AttributeError as error:
            raise ValueError(
                f"The network {type(module).__name__} does not return one tensor; recurrent layers do not. Wrap "
                "it in a module that returns (b, features), such as the last output."
            ) from error
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(
                f"The network {type(module).__name__} cannot take rows of shape {tuple(rows.shape[1:])}"
                f"{_first_layer(module)}. torch says: {str(error).splitlines()[0]}{_channels_last(rows)}"
            ) from error
        if self.head is None or (self.head == "auto" and Z.shape[1] == 1):
            return None
        generator = torch.Generator().manual_seed(seed + 1)
        return torch.randn(Z.shape[1], generator=generator, dtype=torch.float64) / math.sqrt(Z.shape[1])

    def _chosen_method(self, rows: Tensor) -> str:
        if self.method == "full":
            return "full"
        scalar = self._own(rows)
        try:
            scalar.check_complete(rows)
        except NotFactoredError as error:
            if self.method != "auto":
                raise
            warn(
                f"{str(error).partition('. Use')[0]}. The kernel takes whole gradients, method='full': slower, and "
                f"{scalar.n_parameters:,} numbers per landmark. Give method='full' to silence this warning."
            )
            return "full"
        if self.method != "auto":
            return self.method
        return "factored" if exact.kept_numbers(scalar.gradients(rows[:1])) <= MOST_KEPT else "sketch"

    def _at(self, X: Tensor) -> ScalarNetwork:
        """The calling thread's network in the dtype and on the device of X."""
        if not hasattr(self, "_built"):
            with BUILDING:  # the first of many threads builds
                if not hasattr(self, "_built"):
                    self._build(X)
        if math.prod(X.shape[1:]) != math.prod(self.input_shape):
            expected = tuple(self.input_shape)
            raise ValueError(f"Rows have shape {tuple(X.shape[1:])}; the network was built for {expected}.")
        return self._own(X)

    def _own(self, X: Tensor) -> ScalarNetwork:
        """A copy of the network for this thread: hooks are set on its layers, and modules may keep what they see."""
        copies = vars(self._ready)
        key = f"{X.dtype} {X.device}"
        if key not in copies:
            copies[key] = self._scalar.to(X.dtype, X.device)
        return copies[key]

    def _fingerprint(self) -> str:
        scalar, widths = self._scalar, getattr(self, "sketch_widths", None)
        settings = (
            sorted(scalar.names),
            self.sketch_size,
            widths,
            self.normalize,
            self.seed,
            self.input_shape,
        )
        return digest([dict(scalar.module.state_dict()), scalar.head, settings])

    # Values

    def against(self, Y: Any) -> KernelColumns:
        Y = _as_inputs(Y)
        scalar = self._at(Y)
        if self.chosen_method == "sketch":
            kept = self.features(Y)
            return lambda X: self.features(_as_inputs(X, like=Y)) @ kept.mT
        block = exact.exact_block(self._side, Y, self._batch_rows(scalar, Y), self.normalize)

        def checked(X: Any) -> Tensor:
            X = _as_inputs(X, like=Y)
            self._at(X)  # refuses rows of another shape
            return block(X)

        return checked

    def _side(self, X: Tensor) -> exact.Side:
        return exact.side_of(self._at(X), X, full=self.chosen_method == "full")

    def diag(self, X: Any) -> Tensor:
        X = _as_inputs(X)
        if self.normalize:
            return X.new_ones(len(X))
        scalar = self._at(X)
        if self.chosen_method == "sketch":
            return self.features(X).square().sum(1)
        size = self._batch_rows(scalar, X)
        return torch.cat([self._side(X[rows]).squares() for rows in row_blocks(len(X), size)])

    def features(self, X: Any) -> Tensor:
        """Sketched tangent features, (n, D); with `normalize` of unit length.

        Computed in the precision of the network's weights, whatever X has: the sketch's own error is far larger, and
        networks are many times slower in double precision.
        """
        given = _as_inputs(X)
        self._at(given[:1])
        weight = next(self._scalar.module.parameters(), given)
        exact = not self._tokens or weight.dtype in EXACT
        rows = given.to(weight.dtype if exact else torch.float32)
        last: Last | None = getattr(self, "_last", None)
        if last is not None and last[0]() is rows and last[1] == rows._version:
            # landmark rules ask for the same candidates again and again
            return self._converted(last[2], given)
        S = self._sketched(rows) if self._cache is None else self._cache(rows, self._sketched)
        self._last = weakref.ref(rows), rows._version, S
        return self._converted(S, given)

    def _converted(self, S: Tensor, like: Tensor) -> Tensor:
        if S.dtype == like.dtype:
            return S
        S = S.to(like.dtype)
        return S * S.square().sum(1).rsqrt()[:, None] if self.normalize else S

    def _sketched(self, X: Tensor) -> Tensor:
        scalar = self._at(X)
        size = self._batch_rows(scalar, X)
        S = torch.cat([self._sketch(scalar.gradients(X[rows])) for rows in row_blocks(len(X), size)])
        if self.normalize:
            # in effect one more dimension: a gradient of length zero has a direction, too
            S[:, 0] += exact.SMALL**0.5
            S *= S.square().sum(1).rsqrt()[:, None]
        return S

    def _batch_rows(self, scalar: ScalarNetwork, X: Tensor) -> int:
        """Samples per pass through the network, from what one of them takes."""
        if "_rows" not in vars(self):
            full = self.chosen_method == "full"
            parts = Gradients({}, {}) if full else scalar.gradients(X[:1])
            numbers = sum(f.A.numel() + f.G.numel() for f in parts.factors.values())
            if full:
                numbers = 2 * scalar.n_parameters
            elif self.chosen_method == "factored":
                numbers += sum(f.size for f in parts.factors.values() if not exact.is_factored(f))
            else:  # one layer at a time: its gradient, or the transforms of its factors
                sketch = self._sketch
                widest = [
                    4 * f.positions * sketch.width(name) if sketch.by_factors(name, f) else 3 * f.size
                    for name, f in parts.factors.items()
                ]
                numbers += max(widest, default=0)
            self._rows = rows_within(BATCH_BYTES, X.element_size() * 2 * max(numbers, 1), 1, 512)
        return self._rows


def _output_of(module: nn.Module, rows: Tensor, tokens: bool) -> Tensor:
    """What a module gives for rows of numbers, in the precision of its weights, or for tokens."""
    frozen = copy.deepcopy(module).eval()
    with torch.no_grad():
        if tokens:
            return looked_up(frozen, rows)
        return frozen(rows.to(next((p.dtype for p in module.parameters()), torch.float32)))


def _takes_numbers(module: nn.Module, row: Tensor) -> bool:
    """Whether a module takes floating-point rows: one that embeds only positions or classes of its own does."""
    try:
        _output_of(module, row, tokens=False)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    return True


def _channels_last(rows: Tensor) -> str:
    """What a network of pictures may have missed."""
    if rows.ndim != 4:
        return ""
    return " Pictures come as (h, w, channels): for convolutions, begin forward with x.permute(0, 3, 1, 2)."


def _first_layer(module: nn.Module) -> str:
    """What the first layer of a module expects, where that is known."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            return f": its first layer expects {layer.in_features} features"
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            return f": its first layer expects {layer.in_channels} channels"
    return ""


def _as_inputs(X: Any, like: Tensor | None = None) -> Tensor:
    """Rows of any shape as a floating tensor; integers become float32."""
    if not isinstance(X, Tensor):
        array = as_array(X)
        X = torch.as_tensor(writable(array if array.dtype.kind in "fiub" else as_numbers(array)))
    if X.ndim < 2 or not X.numel():
        raise ValueError(
            f"X has shape {tuple(X.shape)}; expected rows of inputs for the network, at least one."
        )
    if not X.is_floating_point():
        X = X.to(torch.float32)
    return X if like is None else X.to(like)
