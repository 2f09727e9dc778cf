"""krepes: kernel representation learning at scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krepes._version import __version__

if TYPE_CHECKING:
    from krepes.autoencoder import KernelAutoencoder
    from krepes.embedding import KernelEmbedding
    from krepes.features.user_kernels import check_kernel
    from krepes.preprocessing import TableEncoder
    from krepes.saved_models import load

# Resolved on first use (PEP 562), so that `krepes --help` does not import torch.
_PUBLIC = {
    "KernelAutoencoder": "krepes.autoencoder",
    "KernelEmbedding": "krepes.embedding",
    "TableEncoder": "krepes.preprocessing",
    "check_kernel": "krepes.features.user_kernels",
    "load": "krepes.saved_models",
}

__all__ = ["KernelAutoencoder", "KernelEmbedding", "TableEncoder", "__version__", "check_kernel", "load"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        import importlib

        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'krepes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
