"""A Dask cluster of two processes, one for all tests of this folder that a process runs."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("distributed", reason='needs pip install "krepes[scale]"')
    from krepes.engines import Dask

    with Dask(n_workers=2, rows_per_part=100) as engine:
        yield engine
