"""Checkpoints: an interrupted fit goes on where it stopped, with the same bits.

The file holds the state of the work and a fingerprint of all that it depends on. It is written atomically between two
steps, at most every `seconds`, and removed when the work is done.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from krepes import model_file

logger = logging.getLogger("krepes")

KIND = "Checkpoint"


class Checkpoint:
    """Saves and restores the state of a long fit.

    Parameters
    ----------
    path : path
    fingerprint : str
        Of data, preprocessing, kernel, landmarks, views and solver; a file with another one is refused.
    seconds : float, default=30
        The least time between two writes.

    Attributes
    ----------
    place : str or None
        Where the work was when the file was last written, in words.
    """

    def __init__(self, path: str | os.PathLike, fingerprint: str, seconds: float = 30.0):
        self.path, self.fingerprint, self.seconds = Path(path), fingerprint, seconds
        self.written = time.monotonic()
        self.place: str | None = None

    def restored(self) -> dict[str, Any] | None:
        """The state of an earlier run; None if there was none."""
        if not self.path.exists():
            return None
        _, content = model_file.read(self.path, KIND)
        if content["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit (other data, settings or random_state). "
                "Delete it to start anew, or name another file."
            )
        self.place = content["place"]
        logger.info("Resuming from %s at %s", self.path, self.place)
        return content["state"]

    def offer(self, state: Callable[[], dict[str, Any]], place: str) -> None:
        """Write if the last write was long enough ago."""
        if time.monotonic() - self.written >= self.seconds:
            content = {"fingerprint": self.fingerprint, "place": place, "state": state()}
            model_file.write(self.path, KIND, content, overwrite=True)
            self.written, self.place = time.monotonic(), place

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
