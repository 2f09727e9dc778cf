"""Embeddings as model files: what is written, and how it comes back.

Always: parameters, input space, kernel, views, landmarks, A and gamma. With moments also F and the sums, so
that the model can be refitted, continued and merged. Without them F is computed again from the landmarks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes import model_file
from krepes.components import Component
from krepes.kernels import Kernel
from krepes.moments import Moments
from krepes.nystrom import NystromMap
from krepes.preparation import choose_precision
from krepes.solvers import Solution

PROBE = 4  # landmarks whose mutual kernel values identify a user's function


def write_embedding(model: Any, path: str | os.PathLike, moments: bool, overwrite: bool) -> None:
    """Write a fitted model."""
    state = {
        "parameters": _parameters(model),
        "input_space": model.input_space_,
        "kernel": model.kernel_,
        "loss": model.loss_,
        "views": model.views_,
        "landmarks": model.landmarks_,
        "landmark_indices": model.landmark_indices_,
        "seed": model.seed_,
        "exact_views": model.exact_views_,
        "n_samples_seen": model.n_samples_seen_,
        "rank": model.rank_,
        "views_per_landmark": model.views_per_landmark_,
        "n_features_in": getattr(model, "n_features_in_", None),
        "feature_names_in": _names(model),
        "kernel_probe": model.kernel_(model.landmarks_[:PROBE]).double(),
    }
    if model.moments_ is not None or model._solution is not None:
        solution = model._solved()
        state["A"] = model._coefficients.to(model.precision_.dtype)
        state["gamma"] = model._intercept
        state["solver"] = model.solver_
        state["history"] = solution.history
        state["solution"] = [solution.n_iter, solution.converged, solution.dropped]
        state["loss_parameters"] = solution.parameters
    if moments and (model.moments_ is not None or model._solution is None):
        state["F"], state["eigenvalues"] = model.features_.F, model.features_.eigenvalues
        state["moments"] = None if model.moments_ is None else model.moments_.state()
    model_file.write(path, type(model).__name__, state, overwrite)


def _parameters(model: Any) -> dict[str, Any]:
    """Constructor arguments; arrays of landmarks and random states are kept in the fitted state alone."""
    params = model.get_params(deep=False)
    if not isinstance(params["landmarks"], str | Component):
        params["landmarks"] = "pivoted_cholesky"
    if not isinstance(params["random_state"], int | None):
        params["random_state"] = None
    return params


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def read_embedding(estimator: type, path: str | os.PathLike, kernel: Any = None, device: str = "auto") -> Any:
    """An object of the class `estimator` from a file that `write_embedding` wrote."""
    _, state = model_file.read(path, estimator.__name__)
    try:
        return _restored(estimator, state, kernel, device)
    except (KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"{path} is damaged: {error!r} is missing.") from error


def _restored(estimator: type, state: dict[str, Any], kernel: Any, device: str) -> Any:
    parameters = state["parameters"] | {"device": device}
    fitted_kernel = _with_function(state["kernel"], kernel)
    written = parameters["kernel"]
    if isinstance(written, model_file.External) or (
        isinstance(written, Kernel) and any(_missing_functions(written))
    ):
        parameters["kernel"] = fitted_kernel
    model = estimator(**parameters)
    model.precision_ = choose_precision(model.dtype, device)
    where = model.precision_.device
    landmarks = state["landmarks"]
    model.landmarks_ = landmarks.to(where) if isinstance(landmarks, Tensor) else landmarks
    model.input_space_, model.kernel_, model.views_ = state["input_space"], fitted_kernel, state["views"]
    model.loss_ = state["loss"]
    _check_probe(model, state["kernel_probe"])
    for name in ("landmark_indices", "seed", "exact_views", "n_samples_seen"):
        setattr(model, f"{name}_", state[name])
    model.views_per_landmark_ = state.get("views_per_landmark", 1)
    if state["n_features_in"] is not None:
        model.n_features_in_ = state["n_features_in"]
    if state["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(state["feature_names_in"], dtype=object)
    model.features_ = _features(model, state)
    model.rank_ = state["rank"]
    moments = state.get("moments")
    model.moments_ = None if moments is None else Moments.from_state(moments)
    model._solution = None
    if "A" in state:
        _restore_solution(model, state)
    return model


def _features(model: Any, state: dict[str, Any]) -> NystromMap:
    where, dtype = model.precision_.device, model.precision_.dtype
    factors = (state["eigenvalues"].to(where), state["F"].to(where)) if "F" in state else None
    return NystromMap.restored(model.kernel_, model.landmarks_, dtype, factors)


def _restore_solution(model: Any, state: dict[str, Any]) -> None:
    A, gamma = state["A"], state["gamma"]
    n_iter, converged, dropped = state["solution"]
    W = torch.zeros(model.rank_, A.shape[1], dtype=torch.float64)  # not stored: A = F W serves every use
    model.solver_ = state["solver"]
    model._solution = Solution(
        W,
        gamma,
        state["history"],
        n_iter,
        converged,
        model.solver_.name or "",
        dropped,
        parameters=state.get("loss_parameters", {}),
    )
    model._coefficients = A.to(model.precision_.device)
    model._intercept = gamma.to(model.precision_.device)


def _with_function(saved: Kernel, given: Any) -> Kernel:
    """Put a user's function back where the file has only a note, also inside sums and products."""
    places = list(_missing_functions(saved))
    if not places:
        if given is not None:
            raise ValueError(f"kernel= was given, but this model's kernel {saved} is stored in its file.")
        return saved
    descriptions = sorted({str(_external(place).description) for place in places})
    notes = ", ".join(descriptions)
    if given is None:
        raise ValueError(
            f"This model's kernel uses {notes}, which a file cannot hold: give it, krepes.load(path, kernel=function)."
        )
    if isinstance(given, Kernel):
        return given  # the whole kernel, rebuilt by the user
    if len(descriptions) > 1:
        raise ValueError(
            f"This model's kernel uses {notes}: give the whole kernel, krepes.load(path, kernel=...)."
        )
    for place in places:
        setattr(place, str(place.external), given)
    return saved


def _external(kernel: Kernel) -> Any:
    """What a kernel takes from outside its file; None if there is nothing."""
    return None if kernel.external is None else getattr(kernel, kernel.external)


def _missing_functions(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels, inside a kernel, whose function or module is only noted in the file."""
    if isinstance(_external(kernel), model_file.External):
        yield kernel
    for part in vars(kernel).values():
        if isinstance(part, Kernel):
            yield from _missing_functions(part)


def _check_probe(model: Any, expected: Tensor) -> None:
    """The kernel must give the values it gave when the model was saved."""
    found = model.kernel_(model.landmarks_[:PROBE]).double().cpu()
    if not torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item()):
        raise ValueError(
            "The kernel given is not the one this model was fitted with: its values between the first "
            "landmarks differ from those in the file."
        )
