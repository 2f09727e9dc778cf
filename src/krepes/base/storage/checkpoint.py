"""Checkpoints: an interrupted fit continues where it stopped, and gives the same bits.

The file holds the state of the work and a fingerprint of everything it depends on. It is written atomically between two
steps, at most every `seconds`, and removed when the work is done.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from krepes.base.reporting import warn
from krepes.base.storage import model_file
from krepes.base.storage.files import remove_abandoned

logger = logging.getLogger("krepes")

KIND = "Checkpoint"
SECONDS = "KREPES_CHECKPOINT_SECONDS"


class Checkpoint:
    """Saves and restores the state of a long fit.

    Parameters
    ----------
    path : path
    fingerprint : dict of str
        Hashes of data, preprocessing, kernel, landmarks, views, solver, ..., by name; a file with others is refused.
    seconds : float, default=None
        The least time between two writes; None is what the environment variable KREPES_CHECKPOINT_SECONDS says, or 30.

    Attributes
    ----------
    place : str or None
        Where the work was when the file was last written, in words.
    """

    def __init__(
        self, path: str | os.PathLike[str], fingerprint: dict[str, str], seconds: float | None = None
    ):
        self.path, self.fingerprint = Path(path), fingerprint
        self.seconds = interval() if seconds is None else seconds
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint={str(path)!r}: there is no folder {self.path.parent}.")
        self.written = time.monotonic()
        self.place: str | None = None

    def restored(self) -> dict[str, Any] | None:
        """The state of an earlier run; None if there was none."""
        if not self.path.exists():
            return None
        remedy = "Name another file, or delete this one to start again if nothing else needs it."
        try:
            _, content = model_file.read(self.path, KIND)
        except ValueError as error:
            raise ValueError(f"{self.path} cannot be read as a checkpoint. {remedy} ({error})") from error
        found, mine = content["fingerprint"], self.fingerprint
        if found != mine:
            other = (
                [name for name in mine if found.get(name) != mine[name]] if isinstance(found, dict) else []
            )
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: it differs in {', '.join(other) or 'its data'}. "
                f"{remedy}"
            )
        self.place = content["place"]
        logger.warning("Resuming from %s at %s", self.path, self.place)
        return content["state"]

    def offer(self, state: Callable[[], dict[str, Any]], place: str) -> None:
        """Write if the last write was long enough ago; if that fails (a full disk), the fit continues."""
        if time.monotonic() - self.written < self.seconds:
            return
        content = {"fingerprint": self.fingerprint, "place": place, "state": state()}
        self.written = time.monotonic()
        try:
            model_file.write(self.path, KIND, content, overwrite=True)
        except (OSError, SafetensorError) as error:
            kept = "no state is kept" if self.place is None else f"the state at {self.place} is kept"
            warn(
                f"The checkpoint {self.path} could not be written ({error}); {kept}, and the fit continues.",
            )
            return
        self.place = place


def remove_checkpoint(path: str | os.PathLike[str]) -> None:
    """Remove the file of finished work, and what processes that were killed while they wrote it have left.

    If it cannot be removed, there is a warning and the work is kept.
    """
    try:
        Path(path).unlink(missing_ok=True)
        remove_abandoned(Path(path))
    except OSError as error:
        warn(
            f"The fit is done, but its checkpoint {path} could not be removed ({error}): remove it yourself.",
        )


def interval() -> float:
    """Seconds between two checkpoints: KREPES_CHECKPOINT_SECONDS, or 30."""
    text = os.environ.get(SECONDS, "30")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{SECONDS}={text!r}: expected a number of seconds >= 0.")
    return seconds
