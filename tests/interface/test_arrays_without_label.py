"""Arrays for a model that was fitted on a table: their columns are the features, the label is none of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier

VALUES = np.random.default_rng(0).normal(size=(60, 3))
TABLE = pd.DataFrame(VALUES, columns=list("abc")).assign(y=VALUES[:, 0] > 0)[["a", "y", "b", "c"]]


@pytest.mark.parametrize("form", ["parquet", "csv", "frame"])
@pytest.mark.filterwarnings("ignore:.*valid feature names")
def test_the_label_is_no_column_of_an_array(tmp_path, form):
    path = tmp_path / f"table.{form}"
    if form != "frame":
        getattr(TABLE, f"to_{form}")(path, index=False)
    data = TABLE if form == "frame" else str(path)
    model = KernelRidgeClassifier(n_landmarks=20, random_state=0).fit(data, "y")
    assert model.n_features_in_ == 3
    assert np.array_equal(model.predict(VALUES), model.predict(TABLE))


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32"])
def test_a_dtype_is_a_name_or_a_type(dtype):
    found = KernelEmbedding(2, n_landmarks=20, dtype=dtype, random_state=0).fit(TABLE)
    assert found.transform(TABLE).dtype == np.float32
