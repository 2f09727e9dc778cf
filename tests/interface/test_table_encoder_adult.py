"""The Adult table: roles, moments and levels against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd

from krepes import TableEncoder
from krepes.sources import open_source
from refusals import warns_of


def test_adult_is_encoded_as_pandas_would(shared_data):
    source = open_source(shared_data / "adult.parquet")
    assert source.describe() == "Parquet, 48,842 rows × 16 columns"
    encoder = TableEncoder(label="income")
    with warns_of(UserWarning, "'split'"):
        encoder.fit_source(source)
    encoder = TableEncoder(label="income", exclude=["split"], dtype="float64", tails="plain")
    rows, indices = encoder.fit_source(source, seed=1, n_candidates=500)
    frame = pd.read_parquet(shared_data / "adult.parquet")
    assert rows["fnlwgt"].to_pylist() == frame["fnlwgt"].iloc[indices].tolist()
    roles = {role["column"]: role["role"] for role in encoder.roles_}
    assert [name for name, role in roles.items() if role == "numeric"] == [
        "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"
    ]  # fmt: skip
    assert (roles["income"], roles["split"]) == ("label", "excluded")
    Z = pd.DataFrame(encoder.transform(frame), columns=encoder.get_feature_names_out())
    for name, role in roles.items():
        if role == "numeric":
            expected = (frame[name] - frame[name].mean()) / frame[name].std(ddof=0)
            assert np.allclose(Z[name], expected, rtol=0, atol=1e-11)
        elif role == "category":
            for level, count in frame[name].value_counts().items():
                if count >= 10:
                    assert np.array_equal(Z[f"{name}={level}"], frame[name] == level)
            assert (Z[f"{name}=(unseen)"] == 0).all()
    assert Z["native-country=(rare)"].sum() == 1
    labels = source.label_column("income")
    assert labels.tolist() == frame["income"].tolist()
