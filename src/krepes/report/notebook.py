"""A written page in a notebook: the file inside a frame that can reach neither the notebook nor the network."""

from __future__ import annotations

from html import escape
from pathlib import Path

HEIGHT = 900  # pixels


class WrittenReport(type(Path())):  # type: ignore[misc]  # the path of this system
    """The path of a written page, which a notebook shows as the page itself.

    The notebook then holds the page, with the rows that are on it, as long as the output is kept.

    >>> WrittenReport("report.html").name
    'report.html'
    """

    def _repr_html_(self) -> str:
        """The page in a frame; what is no file is shown as a path."""
        if not self.is_file():
            return f"<code>{escape(str(self))}</code>"
        page = escape(self.read_text(encoding="utf-8"), quote=True)
        return (
            f'<iframe title="{escape(self.name, quote=True)}" sandbox="allow-scripts allow-downloads" '
            f'style="width:100%;height:{HEIGHT}px;border:0" srcdoc="{page}"></iframe>'
        )
