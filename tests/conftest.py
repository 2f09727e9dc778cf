"""Settings that all tests share: hypothesis profiles, where the real data are, quiet threads."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick", max_examples=15, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=200, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

torch.set_num_threads(1)  # two test processes share two cores

SHARED = Path(__file__).resolve().parents[2] / "shared"


pytest_plugins = ["report_pages"]  # pages that several browser tests open, built once


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets are not here")
    return folder


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def one_probe_strength(monkeypatch):
    """In a search, a probe without a choice of its own takes a tenth of the time."""
    # By its full name, because the package's attribute `search` is the function.
    monkeypatch.setattr(importlib.import_module("krepes.evaluation.tuning.search"), "PROBE_C_GRID", (1.0,))
