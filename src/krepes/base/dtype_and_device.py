"""Where and in which dtype features are computed: an estimator's `dtype` and `device`, resolved once."""

from __future__ import annotations

from dataclasses import dataclass

import torch

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Placement:
    """A dtype and a device.

    >>> Placement.of("float64", "cpu")
    Placement(dtype=torch.float64, device=device(type='cpu'))
    """

    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, dtype: str, device: str = "auto") -> Placement:
        """Resolve the names that an estimator takes; "auto" is a GPU where there is one."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'.")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            chosen = torch.device(device)
            torch.empty(0, device=chosen)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise ValueError(
                f"device={device!r} cannot be used here. This machine and this build of torch have: "
                f"{', '.join(devices())}."
            ) from error
        return cls(DTYPES[dtype], chosen)


def devices() -> list[str]:
    """The devices that torch can compute on here."""
    found = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return [*found, "mps"] if torch.backends.mps.is_available() else found
