"""Rows of a table as numbers, and back, by what was learned of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from krepes.preprocessing.column_roles import Column, text_hashes
from krepes.preprocessing.column_values import number_matrix, text_chunks


def encode_rows(
    table: pa.Table,
    columns: Sequence[Column],
    groups: Sequence[Sequence[int]],
    out: np.ndarray,  # shape: (n, n_features_out), zeros
) -> None:
    """Write the encoded rows of a table into `out`."""
    numeric = [(column, group) for column, group in zip(columns, groups) if column["role"] == "numeric"]
    names = [column["column"] for column, _ in numeric]
    M = number_matrix(table, names)
    refuse_infinite([name for name, bad in zip(names, np.isinf(M).any(axis=1)) if bad])
    for (column, group), values, absent in zip(numeric, M, np.isnan(M)):
        if absent.any():
            values[absent] = column["median"]
            if column["indicator"]:
                out[absent, group[1]] = 1.0
        out[:, group[0]] = (values - column["mean"]) / column["scale"]
    rows = np.arange(table.num_rows)
    for column, group in zip(columns, groups):
        if column["role"] == "category":
            out[rows, group[0] + level_codes(table.column(column["column"]), column)] = 1.0


def decode_rows(
    encoded: np.ndarray,  # shape: (n, n_features_out)
    columns: Sequence[Column],
    groups: Sequence[Sequence[int]],
) -> dict[str, np.ndarray]:
    """The columns of a table from encoded rows: numbers as float64, categories as text or None."""
    decoded = {}
    for column, group in zip(columns, groups):
        part = encoded[:, group]
        if column["role"] == "numeric":
            values = part[:, 0] * column["scale"] + column["mean"]
            decoded[column["column"]] = (
                np.where(part[:, -1] > 0.5, np.nan, values) if column["indicator"] else values
            )
        else:
            special = ["(rare)"] * (len(column["rare"]) > 0) + [None] * column["missing"]
            names = np.array([*column["levels"], *special], dtype=object)
            decoded[column["column"]] = names[part[:, : len(names)].argmax(axis=1)]
    return decoded


def level_codes(values: pa.ChunkedArray, column: Column) -> np.ndarray:
    """Which of a category's outputs is 1, for every row."""
    code = {level: i for i, level in enumerate(column["levels"])}
    unseen = column["n_outputs"] - 1
    rare = len(code) if len(column["rare"]) else unseen
    missing = unseen - 1 if column["missing"] else unseen
    codes = []
    for chunk, distinct in text_chunks(values):
        known = np.array(
            [code.get(value, -1) for value in distinct] + [missing]
        )  # the last is for missing, -1
        for i in np.flatnonzero(known == -1):
            known[i] = rare if np.isin(text_hashes([distinct[i]]), column["rare"])[0] else unseen
        codes.append(known[chunk])
    return np.concatenate(codes)


def refuse_infinite(names: Sequence[str]) -> None:
    if names:
        raise ValueError(
            f"Input X contains infinity in the columns {', '.join(map(repr, names))}. Replace infinite values by NaN, "
            "which is read as missing, or exclude the columns."
        )
