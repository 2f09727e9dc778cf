"""The scan of a table is a sum: whoever adds up which chunks, in however many parts, the bits are the same."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from krepes.base.blocks import Block, part_edges
from krepes.engines import Local
from krepes.engines.engine import add_halving
from krepes.preprocessing.column_scan import ColumnScan, TableScan
from krepes.preprocessing.column_values import ColumnMoments, MomentTree
from krepes.sources import open_source
from krepes.sources.row_sampling import PickedRows, RawReader, sampled_indices

CHUNK = 16


def table(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=n) * 10.0 ** rng.integers(-8, 9, n)
    return pa.table(
        {
            "x": pa.array(numbers, mask=rng.random(n) < 0.1),
            "increasing": np.arange(n) * 2,
            "nearly": np.where(np.arange(n) == n // 2, 0, np.arange(n)),
            "word": [f"w{k}" for k in rng.integers(0, 9, n)],
            "price": [f"{v:.2f}".replace(".", ",") for v in rng.normal(size=n)],
        }
    )


def scan_of(data: pa.Table, picked: np.ndarray) -> TableScan:
    return TableScan(ColumnScan(data.schema), data.column_names, picked, CHUNK)


def known(scan: ColumnScan) -> tuple:
    """All that a scan says, to the bit."""
    texts = {
        name: (text.levels, text.n_missing, text.n_whole, text.n_cells, known_moments(text.moments))
        for name, text in scan.texts.items()
    }
    return scan.n_rows, scan.ends, known_moments(scan.moments), texts


def known_moments(moments: ColumnMoments) -> list:
    return [value.tolist() for value in vars(moments).values()]


@settings(max_examples=6)
@given(n=st.integers(1, 80), n_parts=st.integers(1, 6), seed=st.integers(0, 2**16))
def test_parts_give_the_bits_of_one_scan(n, n_parts, seed):
    data, picked = table(n, seed), sampled_indices(n, 10, seed)
    reader = RawReader(open_source(data), chunk_rows=CHUNK)
    whole, rows = Local().reduce(scan_of(data, picked), reader)
    together = scan_of(data, picked)
    for part in reader.parts(n_parts):
        sent, own = pickle.loads(pickle.dumps((part.portable(), together.empty())))
        Local().reduce(own, sent)
        other = together.empty()
        other.restore(pickle.loads(pickle.dumps(own.state())))
        together.merge(other)
    found, same = together.result()
    assert repr(known(found)) == repr(known(whole))
    assert same.equals(rows)
    assert rows.equals(data.take(pa.array(picked)))


def test_moments_are_those_of_all_rows():
    """Naive sums in extended precision."""
    x = np.random.default_rng(0).normal(size=(1, 1000)) * 3 + 1e6
    tree = MomentTree(1)
    for place, start in enumerate(range(0, 1000, CHUNK)):
        tree = tree.with_chunk(place, ColumnMoments.of(x[:, start : start + CHUNK].copy()))
    exact = x.astype(np.longdouble)
    assert tree.total.count == 1000
    np.testing.assert_allclose(tree.total.mean, exact.mean(axis=1).astype(float), rtol=1e-15)
    np.testing.assert_allclose(tree.total.variance, exact.var(axis=1).astype(float), rtol=1e-10)
    assert len(tree.nodes) <= 7  # log2 of the number of chunks


@given(st.permutations(range(9)))
def test_the_order_of_chunks_changes_nothing(order):
    rows = np.random.default_rng(1).normal(size=(9, 1, 5))
    chunks = [ColumnMoments.of(part) for part in rows]
    in_order, shuffled = MomentTree(1), MomentTree(1)
    for place in range(9):
        in_order = in_order.with_chunk(place, chunks[place])
        shuffled = shuffled.with_chunk(order[place], chunks[order[place]])
    assert known_moments(in_order.total) == known_moments(shuffled.total)


def test_columns_that_increase_do_so_across_parts():
    data = table(100)
    scan, _ = Local().reduce(scan_of(data, np.array([0])), RawReader(open_source(data), chunk_rows=CHUNK))
    assert scan.ends["increasing"] is not None
    assert scan.ends["nearly"] is None


@pytest.mark.parametrize(
    "make", [lambda: scan_of(table(64), np.array([3, 40])), lambda: PickedRows(np.array([3, 40]))]
)
def test_a_block_that_fails_adds_nothing_and_halves_add_all(make):
    block = Block(torch.arange(64), (table(64),))
    scan, whole = make(), make()
    add_halving(whole, block)
    original, calls = scan.plus, []

    def failing(sums, part):
        added = original(sums, part)
        calls.append(len(part))
        if len(part) == 64:
            raise MemoryError
        return added

    scan.plus = failing
    add_halving(scan, block)
    assert calls == [64, 32, 32]
    mine, theirs = scan.result(), whole.result()
    if isinstance(mine, tuple):
        assert mine[0].n_rows == 64
        np.testing.assert_allclose(mine[0].moments.mean, theirs[0].moments.mean, rtol=1e-14)
        mine, theirs = mine[1], theirs[1]
    assert mine.equals(theirs)


@given(
    n=st.integers(1, 200),
    n_parts=st.integers(1, 12),
    chunk=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_parts_cover_all_rows_once(n, n_parts, chunk, cuts):
    for seams in (None, [0, *sorted(min(cut, n) for cut in cuts), n]):
        edges = part_edges(0, n, n_parts, 1 if seams else chunk, seams)
        assert edges[0] == 0
        assert edges[-1] == n
        assert (np.diff(edges) > 0).all()
        assert len(edges) <= n_parts + 1
        if seams:
            assert set(edges) <= set(seams)
        else:
            assert all(edge % chunk == 0 for edge in edges[:-1])
