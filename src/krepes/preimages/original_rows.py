"""Rows of a model's input space in the form of the data: the inverse of `InputSpace.tensor`.

    vectors     unshifted, (n, d)
    images      the shape and units of those given, (n, h, w[, c]), as floating-point numbers
    table       its columns: numbers unscaled, categories by their largest level

The one place where this is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.table_encoder import TableEncoder


def original_rows(inputs: InputSpace, X: Tensor) -> np.ndarray | pa.Table:
    """Rows (n, d) as the data have them.

    >>> original_rows(InputSpace("images", (1, 2), divide=255.0), torch.tensor([[0.0, 1.0]]))
    array([[[  0., 255.]]])
    """
    if inputs.encoder is not None:
        return _table(inputs.encoder, X.double().cpu().numpy())
    X = X.double().reshape(len(X), *inputs.shape)
    if inputs.normalize is not None:
        mean, std = (
            torch.as_tensor(v, dtype=X.dtype, device=X.device)
            for v in (inputs.normalize.mean, inputs.normalize.std)
        )
        X = X * std + mean if X.ndim == 4 else X * std[0] + mean[0]
    return (inputs.unshifted(X) * inputs.divide).cpu().numpy()


def _table(encoder: TableEncoder, encoded: np.ndarray) -> np.ndarray | pa.Table:
    """A table of the columns that are used; an array where the encoder was fitted on one."""
    found = {
        column["column"]: _values(column, encoded[:, group])
        for column, group in zip(encoder.columns_, encoder.groups_)
    }
    if encoder.named_:
        kinds = {name: pa.large_string() if v.dtype == object else pa.float64() for name, v in found.items()}
        return pa.table({name: pa.array(v, kinds[name], from_pandas=True) for name, v in found.items()})
    out = np.full((len(encoded), encoder.n_features_in_), np.nan)
    for name, values in found.items():
        out[:, encoder.input_columns_.index(name)] = values
    return out


def _values(column: dict[str, Any], part: np.ndarray) -> np.ndarray:
    """A number, missing where its indicator says so; or the largest level, which is never "unseen"."""
    if column["role"] == "numeric":
        values = part[:, 0] * column["scale"] + column["mean"]
        return np.where(part[:, 1] > 0.5, np.nan, values) if column["indicator"] else values
    special = ["(rare)"] * (len(column["rare"]) > 0) + [None] * column["missing"]
    levels = np.array([*column["levels"], *special], dtype=object)
    return levels[part[:, : len(levels)].argmax(1)]
