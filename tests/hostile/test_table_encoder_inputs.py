"""Tables that cannot be encoded, and tables that differ from the one that was fitted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from krepes import TableEncoder
from krepes.base.storage.packing import pack, unpack
from krepes.sources import open_source
from refusals import refuses

TABLE = {"age": [20.0, 30.0, 40.0], "job": ["clerk", "cook", "clerk"]}


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values_name_their_columns(bad):
    with refuses(ValueError, "'a'", "'c'", "NaN"):
        TableEncoder().fit({"a": [1.0, bad], "b": [1.0, 2.0], "c": [bad, bad]})
    with refuses(ValueError, "'age'"):
        TableEncoder().fit(TABLE).transform({"age": [bad], "job": ["cook"]})


def test_values_too_large_for_a_deviation():
    with refuses(ValueError, "'a'", "1e+300"):
        TableEncoder().fit({"a": [1e300, -1e300], "b": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"job": ["cook"]}, "'age'"),
        ({"Age": [1.0], "job": ["cook"]}, ("'age'", "'Age'")),
        (
            {"age": ["39", "older"], "job": ["cook"] * 2},
            ("'age'", "'older'"),
        ),
        ({"age": ["many"], "job": ["cook"]}, ("'age'", "'many'")),
        ({"age": [1.0], "job": [3]}, ("'job'", "int64", "3")),
        ({"age": [[1.0]], "job": ["cook"]}, "'age'"),
        (np.zeros((2, 3)), ("X", "3 features", "TableEncoder", "2 features")),
        (np.zeros(3), ("Reshape", "data")),
        (np.zeros((2, 3, 3)), "vectors"),
        (["a", "b"], "vectors"),
    ],
)
def test_tables_that_differ_from_the_fitted_one(new, message):
    encoder = TableEncoder().fit(TABLE)
    with refuses(ValueError, message):
        encoder.transform(new)


def test_columns_with_no_value_are_missing_values():
    encoder = TableEncoder(dtype="float64").fit(TABLE)
    Z = encoder.transform(pd.DataFrame({"age": [None], "job": [None]}, dtype=object))
    assert Z.tolist() == [[0, 0, 0, 1]]
    assert encoder.transform(pa.table({"age": pa.nulls(1), "job": pa.nulls(1)})).tolist() == Z.tolist()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"exclude": ["jobs"]}, ("'jobs'", "'job'")),
        ({"label": "income"}, "'income'"),
        ({"exclude": "job"}, ("list", "column")),
        ({"exclude": ["job"], "label": "age"}, "excluded"),
        ({"min_frequency": -1}, "min_frequency"),
        ({"min_frequency": 1.5}, "min_frequency"),
        ({"min_frequency": "often"}, "min_frequency"),
        ({"max_levels": 0}, "max_levels"),
        ({"dtype": "int8"}, "dtype"),
        ({"missing": "NA"}, ("missing", "words")),
        ({"columns": {"age": "numbers"}}, ("columns={'age'", "'numbers'", "'number'")),
        ({"columns": {"ages": "number"}}, ("'ages'", "'age'")),
        ({"columns": {"age": "date"}}, ("columns={'age'", "'date'")),
        ({"columns": {"job": "number"}}, ("columns={'job'", "'number'", "'clerk'")),
        ({"columns": {"job": "date"}}, ("columns={'job'", "'date'")),
    ],
)
def test_parameters_that_do_not_fit(parameters, message):
    with refuses(ValueError, message):
        TableEncoder(**parameters).fit(TABLE)


def test_nothing_left_to_use_says_why():
    with refuses(ValueError, "id", "raw", "y"):
        TableEncoder(label="y").fit({"id": [1, 2], "raw": [b"u", b"v"], "y": [0, 1]})


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table])
def test_no_rows_are_encoded_as_no_rows(kind):
    encoder = TableEncoder().fit(TABLE)
    assert encoder.transform(kind({"age": [], "job": []})).shape == (0, 4)
    with refuses(ValueError, "'job'"):
        encoder.transform(kind({"age": []}))
    with refuses(ValueError, "0 sample"):
        TableEncoder().fit(kind({"age": [], "job": []}))


def test_numbers_in_text_are_read_where_numbers_were():
    encoder = TableEncoder().fit(TABLE)
    expected = encoder.transform({"age": [39, None, 20.5], "job": ["cook"] * 3})
    for cells in (["39", "unknown", "20.5"], [39, "-", "20.5"]):
        assert np.array_equal(encoder.transform({"age": cells, "job": ["cook"] * 3}), expected)


def test_unfitted_encoders_say_so():
    encoder = TableEncoder()
    for call in (encoder.describe, encoder.get_feature_names_out, lambda: encoder.transform(TABLE)):
        with pytest.raises(NotFittedError):
            call()
    with refuses(ValueError, "column"):
        encoder.fit({"id": [1, 2]})
    with pytest.raises(NotFittedError):
        encoder.transform({"id": [1, 2]})


@pytest.mark.parametrize("data", [["text", "more"], np.zeros((3, 4, 4))])
def test_data_that_are_no_table(data):
    with refuses(ValueError, "vectors"):
        TableEncoder().fit(data)
    with refuses(ValueError, "vectors"):
        TableEncoder().fit_source(open_source(data))


def test_one_row_is_a_table():
    assert TableEncoder().fit_transform({"a": [3.0], "b": ["u"]}).tolist() == [[0, 1, 0]]


def test_duplicate_rows_and_columns_are_ordinary():
    Z = TableEncoder(dtype="float64").fit_transform(np.tile([[1.0, 1.0], [3.0, 3.0]], (5, 1)))
    assert Z.tolist() == [[-1, -1], [1, 1]] * 5


@pytest.mark.parametrize(
    "change",
    [
        {"form": "weekday first"},
        {"cycles": ["month"]},
        {"words": [1]},
        {"tolerant": "yes"},
        {"mean": "late"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_forged_columns_are_refused(change):
    encoder = TableEncoder().fit({"d": ["01.02.2020", "15.03.2022", "-", "20.06.2023"]})
    tensors = {}
    stored = pack(encoder, "", tensors)
    assert repr(unpack(stored, tensors).columns_) == repr(encoder.columns_)
    column = stored["state"]["~dict"]["columns_"][0]
    column["~dict"] |= change
    with refuses(ValueError, next(iter(change))):
        unpack(stored, tensors)


def test_a_column_that_the_table_does_not_have_is_refused():
    encoder = TableEncoder().fit({"d": [1.0, 2.0], "e": [1.0, 3.0]})
    encoder.input_columns_ = ["d"]
    with refuses(ValueError, "input_columns_"):
        encoder.check_restored()


def test_another_unit_in_later_rows_is_named():
    """5 g is not read as 5 kg."""
    encoder = TableEncoder().fit({"weight": [f"{i / 10} kg" for i in range(1, 40)]})
    assert encoder.transform({"weight": ["1 kg"]}) == encoder.transform({"weight": ["1"]})
    with refuses(ValueError, "'5 g'"):
        encoder.transform({"weight": ["5 g"]})


def test_spaces_around_levels_are_seen_through_in_later_rows():
    encoder = TableEncoder().fit({"city": ["Bonn", "Bonn ", " Ulm", "Ulm"] * 10})
    assert encoder.n_features_out_ == 3
    np.testing.assert_array_equal(
        encoder.transform({"city": ["  Bonn"]}), encoder.transform({"city": ["Bonn"]})
    )


def test_values_beyond_the_precision_are_named():
    """They were encoded as infinite numbers."""
    encoder = TableEncoder().fit(np.array([[0.1]]))
    with np.errstate(over="ignore"), refuses(ValueError, "too large", "float32"):
        encoder.transform(np.array([[3.45584192064786e152]]))
