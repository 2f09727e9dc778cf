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

    def notice(self, holds_rows: bool, labels: str | None, concepts: bool) -> str:
        """Which parts of the data a reader of the file can see; `labels` is what they are called."""
        if holds_rows:
            return (
                "This file holds real rows of the data: everyone who opens it can see them. "
                f"{self.no_samples} leaves them out."
            )
        held = [
            "the numbers of the rows and landmarks",
            "their places on the maps",
            "the rows' coverage, nearest rows and landmarks, and contributions",
            *([] if labels is None else [f"the rows' labels ({labels})"]),
            *(["the names and scores of the concepts"] if concepts else []),
            "the description of the model",
        ]
        return (
            f"The rows themselves are not in this file. It still holds {', '.join(held[:-1])} and {held[-1]}."
        )


IN_PYTHON = Advice(
    "samples=False",
    "Write the page with max_rows=ALL to have all rows on it.",
)
ON_THE_COMMAND_LINE = Advice(
    "--no-samples",
    "krepes explain MODEL DATA --sample ROW explains it in the terminal; --max-rows ALL puts all rows on the page.",
)
