"""How a reader changes a page: in the words of Python, or of the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """What to write instead.

    Attributes
    ----------
    no_samples : str
        Leaves real rows out.
    more_rows : str
        Shows a row that is not among those shown; "ROW" and "ALL" stand for its number and that of all rows.
    """

    no_samples: str
    more_rows: str


IN_PYTHON = Advice(
    "samples=False",
    "Write the page with max_rows=ALL to have all rows on it.",
)
ON_THE_COMMAND_LINE = Advice(
    "--no-samples",
    "krepes explain MODEL DATA --sample ROW explains it in the terminal; --max-rows ALL puts all rows on the page.",
)
