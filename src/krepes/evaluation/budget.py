"""A budget of seconds: what is measured first is measured in any case, and the rest as far as the seconds reach.

    next draw      begins where it fits, if it takes as long as the longest before it; so does a trial of a search
    a baseline     is tried on an eighth of the labels first; all of them take about eight times as long
    search for C   ends when its part of the seconds is spent: what is left over the draws to make, or half of it

What is left out is said in words. Without a limit nothing is measured twice and nothing is left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from krepes.base.validation import check_number

TRIAL_SHARE = 8  # of the labels, one in this many, on which a baseline is tried
TRIAL_LABELS = 2000  # with fewer labels nothing takes long


class Budget:
    """Seconds that something may take, from now on.

    Parameters
    ----------
    seconds : float or None
        None for no limit.
    clock : function without arguments, default=time.perf_counter
        The time in seconds.

    Examples
    --------
    >>> times = iter([0.0, 45.0, 50.0])
    >>> budget = Budget(60, clock=lambda: next(times))
    >>> budget.left, budget.allows(20.0)
    (15.0, False)
    """

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.perf_counter):
        if seconds is not None:
            check_number("budget", seconds, "seconds", above=0)
        self.seconds = math.inf if seconds is None else float(seconds)
        self.clock = clock
        self.end = self.clock() + self.seconds

    @property
    def limited(self) -> bool:
        return math.isfinite(self.seconds)

    @property
    def left(self) -> float:
        """Seconds that are left; negative where more were taken."""
        return self.end - self.clock() if self.limited else math.inf

    def allows(self, seconds: float) -> bool:
        """Whether this many seconds are left."""
        return not self.limited or seconds <= self.left

    def part(self, n: int) -> Budget:
        """One of n equal parts of what is left."""
        return Budget(max(self.left / n, 1e-9), self.clock) if self.limited else self

    def refusal(self, n_labels: int, n_fits: int, trial: Callable[[int], object] | None) -> str:
        """Why there is no time for fits with so many labels; "" where there may be.

        `trial` fits with fewer labels, whose number it is given; None where fits end by themselves.
        """
        if not self.allows(0.0):
            return f"{self.words()} is spent"
        if trial is None or not self.limited or n_labels < TRIAL_LABELS:
            return ""
        start = self.clock()
        trial(n_labels // TRIAL_SHARE)
        return self.lack(TRIAL_SHARE * n_fits * (self.clock() - start))

    def lack(self, seconds: float) -> str:
        """Why there is no time for this many seconds; "" where there is."""
        if self.allows(seconds):
            return ""
        return f"it takes about {seconds:.0f} s, and {max(0.0, self.left):.0f} s of {self.words()} are left"

    def forecast(self, what: str, seconds: float, n: int) -> str:
        """After the first of n, which took some seconds: how many there will be; "" for all.

        >>> Budget(60, clock=lambda: 0.0).forecast("trial", 25.0, 10)
        'A trial takes about 25 s: 3 of 10 fit into the budget of 60 s.'
        """
        if self.allows((n - 1) * seconds):
            return ""
        room = 1 + max(0, int(self.left // seconds))
        return f"A {what} takes about {seconds:.0f} s: {room} of {n} fit into {self.words()}."

    def words(self) -> str:
        return f"the budget of {self.seconds:g} s"


def as_budget(budget: Budget | float | None) -> Budget:
    """A budget from seconds, or as it is."""
    return budget if isinstance(budget, Budget) else Budget(budget)
