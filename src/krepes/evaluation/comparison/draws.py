"""Several methods on the same draws of a protocol, draw by draw, as far as a budget reaches (`evaluation.budget`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from krepes.evaluation.budget import Budget
from krepes.evaluation.protocol import Drawn, Protocol
from krepes.evaluation.scoring import ProtocolResult


@dataclass(frozen=True, eq=False)
class Method:
    """A probe on a representation, given for the rows of a protocol."""

    Z: Any
    probe: str
    options: Mapping[str, Any] = field(default_factory=dict)


def run_draws(
    plan: Protocol,
    methods: Mapping[str, Method],
    budget: Budget,
    *,
    scoring: str | None = None,
    progress: Callable[[str], None] = lambda name: None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, ProtocolResult], list[str]]:
    """Results by name, all of the same draws, and notes on what was left out.

    Parameters
    ----------
    plan : Protocol
    methods : {name: Method}. The first is measured in any case.
    budget : Budget
    scoring : as in `Protocol.run`.
    progress : called with the name of a method before each of its draws.
    say : called with what one draw took where there are more to come.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from krepes.evaluation import plan_protocol
    >>> X, y = load_iris(return_X_y=True)
    >>> plan = plan_protocol(y, label_fraction=None)
    >>> methods = {"all columns": Method(X[plan.rows], "linear"), "two": Method(X[plan.rows, :2], "linear")}
    >>> results, notes = run_draws(plan, methods, Budget(1e-9))
    >>> list(results), notes
    (['all columns'], ['two was left out: the budget of 1e-09 s is spent', '1 of 5 draws were made, ...'])
    """
    drawn = {name: Drawn(plan, m.Z, m.probe, scoring, m.options) for name, m in methods.items()}
    notes: list[str] = []
    n, longest, first = len(plan.draws), 0.0, next(iter(methods))
    for i in range(n):
        if i and not budget.allows(longest):
            notes.append(f"{i} of {n} draws were made, to keep {budget.words()}")
            break
        start = budget.clock()
        for name in list(drawn):
            progress(name)
            try:
                why = "" if i or name == first else _refusal(plan, methods[name], budget)
                if why:
                    raise ValueError(why)
                limit = (
                    {"budget": budget.part(max(2, n - i))}
                    if budget.limited and methods[name].probe == "linear"
                    else {}
                )
                drawn[name].add(i, **limit)
            except ValueError as error:
                if methods[name].probe != "estimator" and not why:
                    raise
                notes.append(f"{name} was left out: {error}".rstrip("."))
                del drawn[name]
        longest = max(longest, budget.clock() - start)
        if i == 0 and (text := budget.forecast("draw", longest, n)):
            say(text)
    return {name: each.result() for name, each in drawn.items()}, notes


def _refusal(plan: Protocol, method: Method, budget: Budget) -> str:
    def trial(n_labels: int) -> None:
        few = plan.with_labels(n_labels)
        Z = method.Z[np.searchsorted(plan.rows, few.rows)]
        Drawn(few, Z, method.probe, None, method.options).add(0)

    return budget.refusal(plan.n_labels, 1, trial if method.probe == "estimator" else None)
