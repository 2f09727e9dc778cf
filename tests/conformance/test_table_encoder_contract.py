"""TableEncoder as a scikit-learn transformer and as a component that a model file can hold."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes import TableEncoder
from krepes.base.storage.packing import pack, unpack
from krepes.sources import open_source
from refusals import refuses, warns_of

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 40, 50] * 10,
        "job": pd.Categorical(["clerk", "cook", "clerk", None] * 10),
        "rate": [0.5, None, 1.5, 2.5] * 10,
        "kept": [True, False, False, False] * 10,
    }
)


@parametrize_with_checks([TableEncoder()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_way_to_give_a_table_gives_the_same_rows(tmp_path):
    table = pa.Table.from_pandas(FRAME)
    pq.write_table(table, tmp_path / "t.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    ways = {
        "pandas": FRAME,
        "polars": pl.from_arrow(table),
        "pyarrow": table,
        "mapping": table.to_pydict(),
        "parquet": tmp_path / "t.parquet",
        "csv": str(tmp_path / "t.csv"),
        "source": open_source(FRAME),
        "other order": FRAME[["kept", "rate", "age", "job"]].assign(more="x"),
    }
    expected = TableEncoder().fit(FRAME).transform(FRAME)
    assert expected.shape == (40, 8)
    for fitted in ("pandas", "csv", "polars"):
        encoder = TableEncoder().fit(ways[fitted])
        for name, data in ways.items():
            assert np.array_equal(encoder.transform(data), expected), (fitted, name)


def test_arrays_and_tensors_are_tables_without_names():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[3, 1] = np.nan
    encoder = TableEncoder(dtype="float64").fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x1 (missing)", "x2"]
    assert not hasattr(encoder, "feature_names_in_")
    for same in (
        torch.from_numpy(X).requires_grad_(True),
        X.tolist(),
        X.astype(object),
        np.asfortranarray(X),
    ):
        assert np.array_equal(encoder.transform(same), encoder.transform(X))
    text = np.array([["a", 1], ["b", 2], ["a", None]], dtype=object)
    assert TableEncoder().fit(text).get_feature_names_out().tolist()[:2] == ["x0=a", "x0=b"]
    rows = np.arange(60).reshape(30, 2)  # increasing integers are ids in a table, but not in an array
    assert TableEncoder().fit(rows).n_features_out_ == 2


def test_arrays_after_frames_are_read_by_position_with_a_warning():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})
    encoder = TableEncoder().fit(frame)
    with warns_of(UserWarning, "X", "valid", "feature"):
        assert np.array_equal(encoder.transform(frame.to_numpy()), encoder.transform(frame))


def test_one_row_may_be_a_mapping_of_values():
    encoder = TableEncoder().fit(FRAME)
    row = {"age": 20, "job": "clerk", "rate": 0.5, "kept": True}
    assert np.array_equal(encoder.transform(row), encoder.transform(FRAME[:1]))


def test_names_frames_and_pipelines():
    encoder = TableEncoder(label="age").set_output(transform="pandas")
    out = encoder.fit_transform(FRAME)
    names = ["job=clerk", "job=cook", "job=(missing)", "job=(unseen)", "rate", "rate (missing)", "kept"]
    assert out.columns.tolist() == names == encoder.get_feature_names_out().tolist()
    assert encoder.feature_names_in_.tolist() == FRAME.columns.tolist()
    assert (encoder.n_features_in_, encoder.n_features_out_) == (4, 7)
    assert encoder.groups_ == [[0, 1, 2, 3], [4, 5], [6]]
    assert make_pipeline(TableEncoder()).fit(FRAME).transform(FRAME).dtype == np.float32
    with refuses(ValueError, "input_features"):
        encoder.get_feature_names_out(["a"])


def test_equal_output_names_are_told_apart():
    encoder = TableEncoder().fit({"a": ["u", "v"], "a=u": [1.0, 2.0]})
    assert len(set(encoder.get_feature_names_out())) == encoder.n_features_out_


def test_the_state_is_json_and_arrays():
    """What a model file saves is enough to transform."""
    encoder = TableEncoder(label="age", min_frequency=11).fit(FRAME)

    tensors = {}
    header = json.loads(json.dumps(pack(encoder, "", tensors), allow_nan=False))
    again = unpack(header, {name: tensor.clone() for name, tensor in tensors.items()})
    new = FRAME.assign(job=["cook", "clerk", "pilot", None] * 10)
    assert np.array_equal(again.transform(new), encoder.transform(new))
    assert clone(encoder).get_params() == encoder.get_params()
    assert not hasattr(clone(encoder), "groups_")


def test_inputs_are_not_changed():
    frame, X = FRAME.copy(), np.array([[1.0, np.nan], [2.0, 3.0]])
    before = X.copy()
    encoder = TableEncoder().fit(frame)
    encoder.transform(frame)
    TableEncoder().fit_transform(X)
    pd.testing.assert_frame_equal(frame, FRAME)
    assert np.array_equal(X, before, equal_nan=True)
