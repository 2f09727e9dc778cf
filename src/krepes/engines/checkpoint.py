"""Checkpoints of the moment pass: an interrupted pass goes on where it stopped, with the same bits.

The file holds the sums and the index of the next row, and a fingerprint of all that the sums depend on. It
is written atomically at the end of a batch, at most every `seconds`, and removed when the pass is done.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from krepes import model_file
from krepes.engines.moment_pass import MomentPass

logger = logging.getLogger("krepes")


class Checkpoint:
    """Saves and restores a moment pass.

    Parameters
    ----------
    path : path
    fingerprint : str
        Of data, preprocessing, kernel, landmarks and views; a file with another one is refused.
    seconds : float, default=30
        The least time between two writes.
    """

    def __init__(self, path: str | os.PathLike, fingerprint: str, seconds: float = 30.0):
        self.path, self.fingerprint, self.seconds = Path(path), fingerprint, seconds
        self.written = time.monotonic()

    def restore(self, moment_pass: MomentPass) -> int:
        """Put the sums of an earlier run back; returns the first row that is still to be read."""
        if not self.path.exists():
            return 0
        _, state = model_file.read(self.path, "MomentPass")
        if state["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit (other data, settings or random_state). "
                "Delete it to start anew, or name another file."
            )
        moment_pass.restore(state["sums"])
        logger.info("Resuming from %s at row %d", self.path, state["next_row"])
        return state["next_row"]

    def offer(self, moment_pass: MomentPass, next_row: int) -> None:
        """Write if the last write was long enough ago."""
        if time.monotonic() - self.written >= self.seconds:
            state = {"fingerprint": self.fingerprint, "next_row": next_row, "sums": moment_pass.state()}
            model_file.write(self.path, "MomentPass", state, overwrite=True)
            self.written = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
