"""Cells of text as numbers and dates, against Python's own functions and naive loops."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krepes import TableEncoder
from krepes.preprocessing.cells.dates import read_dates
from krepes.preprocessing.cells.grams import BUCKETS, hashed_groups
from krepes.preprocessing.cells.numbers import read_numbers
from krepes.preprocessing.columns.date import YEAR
from krepes.sources import open_source
from refusals import refuses

MARKS = str.maketrans(",.", ".,")
DECORATIONS = ["{}", " {} ", "${}", "{} €", "EUR {}", "{}%", "{} %", "US${}"]


@given(
    st.lists(
        st.tuples(
            st.integers(-(10**12), 10**12),
            st.integers(0, 4),
            st.sampled_from(DECORATIONS),
            st.sampled_from(",' \u202f’_"),
            st.booleans(),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_written_numbers_are_read_back(cells):
    """Every number, grouped by any mark, with any sign of a currency, in both forms and in brackets."""
    for form in ("decimal point", "decimal comma"):
        texts, values = [], []
        for number, decimals, decoration, mark, bracketed in cells:
            value = number / 1000
            text = f"{abs(value):,.{decimals}f}"
            values.append(math.copysign(float(text.replace(",", "")), value))
            text = text.translate(MARKS) if form == "decimal comma" else text
            grouping = "." if form == "decimal comma" else ","
            text = decoration.format(text.replace(grouping, grouping if mark == "," else mark))
            minus = value < 0
            texts.append(f"({text})" if minus and bracketed else "-" * minus + text.lstrip())
        assert read_numbers(pa.array(texts, pa.string()), form) == pytest.approx(values, rel=1e-15)


@pytest.mark.parametrize(
    "cell",
    ["", "-", "abc", "1-2", "12:30", "1.2.3.4", "+49 30 1234", "1,23.4", "(5", "5)", "0x1F", "ABC 123", "٣"],
)
def test_other_cells_are_no_numbers(cell):
    for form in ("decimal point", "decimal comma"):
        assert np.isnan(read_numbers(pa.array([cell]), form)).all()


WAYS = {
    "year first": ["%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%SZ", "%a, %Y-%m-%d"],
    "day first": ["%d.%m.%Y", "%d/%m/%Y %H:%M", "%d-%b-%Y", "%d %B %Y", "%d.%m.%y", "%A, %d %b %Y %I:%M %p"],
    "month first": ["%m/%d/%Y", "%m-%d-%y", "%b %d, %Y", "%B %d %Y", "%m/%d/%Y %I:%M:%S %p"],
}


@given(st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), min_size=1, max_size=20))
def test_written_dates_are_read_back(moments):
    """As strptime reads them."""
    for form, ways in WAYS.items():
        for way in ways:
            texts = [moment.strftime(way) for moment in moments]
            plain = [datetime.strptime(text, way).replace(tzinfo=UTC).timestamp() for text in texts]
            assert read_dates(pa.array(texts), form) == pytest.approx(plain, abs=1e-3), way


@pytest.mark.parametrize(
    "cell", ["31.02.2022", "00.01.2022", "1.13.2022", "2022", "12/2022", "11.01.2022 25:00", "x"]
)
def test_other_cells_are_no_dates(cell):
    assert np.isnan(read_dates(pa.array([cell]), "day first")).all()


def test_offsets_of_time_zones_are_taken_off():
    cells = pa.array(["2022-01-11T12:00:00+01:00", "2022-01-11 06:30-0430", "2022-01-11T11:00Z"])
    assert len(set(read_dates(cells, "year first"))) == 1


def naive_dates(moments: list[datetime]) -> np.ndarray:
    """Years standardised; sine and cosine of the part of the day, the week and the year that is over."""
    seconds = np.array([(m - datetime(1970, 1, 1)).total_seconds() for m in moments])
    rows = [(seconds - seconds.mean()) / seconds.std()]
    day = [(m - datetime(m.year, m.month, m.day)) / timedelta(days=1) for m in moments]
    week = [(m.weekday() + part) / 7 for m, part in zip(moments, day)]
    year = [
        (m - datetime(m.year, 1, 1)) / (datetime(m.year + 1, 1, 1) - datetime(m.year, 1, 1)) for m in moments
    ]
    for parts in (day, week, year):
        rows += [np.sin(2 * np.pi * np.array(parts)), np.cos(2 * np.pi * np.array(parts))]
    return np.column_stack(rows)


MOMENTS = [datetime(2019, 3, 1, 8) + timedelta(hours=1237 * i) for i in range(30)]


@pytest.mark.parametrize(
    "column",
    [
        [m.strftime("%d.%m.%Y %H:%M") for m in MOMENTS],
        pa.array(MOMENTS, pa.timestamp("ns")),
        pd.Series(MOMENTS),
        pa.array(MOMENTS, pa.timestamp("s", "UTC")),
    ],
    ids=["text", "Arrow", "pandas", "with a zone"],
)
def test_dates_are_years_and_circles(column):
    encoder = TableEncoder(dtype="float64").fit(pd.DataFrame({"t": column}))
    Z = encoder.transform(pd.DataFrame({"t": column}))
    assert np.allclose(Z, naive_dates(MOMENTS), atol=1e-9)
    names = encoder.get_feature_names_out().tolist()
    assert names[:3] == ["t", "t (time of day, sin)", "t (time of day, cos)"]
    found = encoder.inverse_transform(Z)["t"].to_pylist()
    assert all(abs(a - b) < timedelta(milliseconds=1) for a, b in zip(found, MOMENTS))


def test_a_point_on_a_circle_weighs_as_much_as_a_level():
    days = pa.array(np.arange(0, 7 * 2000, 1), pa.int32()).cast(pa.date32())
    Z = TableEncoder(dtype="float64").fit_transform({"d": days})
    week = Z[:, 1:3][:700]
    assert ((week[:, None] - week[None]) ** 2).sum(2).mean() == pytest.approx(2.0)


def test_clocks_in_a_time_zone_are_local():
    """Noon in Berlin is noon, in summer and in winter."""
    kind = pa.timestamp("s", "Europe/Berlin")
    noons = pa.array(pd.date_range("2022-01-01 12:00", periods=600, freq="D", tz="Europe/Berlin")).cast(kind)
    encoder = TableEncoder().fit({"t": noons})
    assert encoder.columns_[0].cycles == ["week", "year"]


def test_missing_dates_are_the_centre_and_an_indicator():
    encoder = TableEncoder(dtype="float64").fit({"d": ["01.02.2020", "15.03.2022", "-", "20.06.2023"]})
    Z = encoder.transform({"d": ["-", None, "15.03.2022"]})
    assert Z[0].tolist() == Z[1].tolist()
    assert Z[0, 1:].tolist() == [0, 0, 0, 0, 1]
    assert Z[2, -1] == 0
    assert Z[0, 0] == pytest.approx(Z[2, 0])  # the median
    assert encoder.inverse_transform(Z)["d"].to_pylist()[:2] == [None, None]


def test_times_of_day_are_circles_and_come_back():
    encoder = TableEncoder(dtype="float64").fit({"t": ["00:00", "06:00", "5:15 pm", "23:59"] * 3})
    Z = encoder.transform({"t": ["06:00", "17:15"]})
    assert Z[0] == pytest.approx([1, 0])
    assert [str(t) for t in encoder.inverse_transform(Z)["t"].to_pylist()] == ["06:00:00", "17:15:00"]


def test_yes_and_no_come_back():
    encoder = TableEncoder(dtype="float64").fit({"b": ["Yes", "no", " YES", None]})
    Z = encoder.transform({"b": ["no", "yes", None]})
    assert Z[:, 0] == pytest.approx([-(2**0.5), 0.5**0.5, 0.5**0.5])
    assert encoder.inverse_transform(Z)["b"].to_pylist() == ["no", "yes", None]
    with refuses(ValueError, "'perhaps'"):
        encoder.transform({"b": ["yes", "perhaps"]})


def naive_groups(text: str) -> np.ndarray:
    counts = np.zeros(BUCKETS)
    data = f" {' '.join(text.lower().split())} ".encode()
    for i in range(len(data) - 2):
        h = (data[i] * 65536 + data[i + 1] * 256 + data[i + 2]) * 0x9E3779B97F4A7C15 % 2**64
        counts[h >> 57] += 1 if h >> 40 & 1 else -1
    return counts / (np.linalg.norm(counts) or 1)


@given(st.lists(st.text("abc äß.\n\t", max_size=30), min_size=1, max_size=10))
def test_hashed_groups_are_those_of_a_loop(texts):
    expected = np.array([naive_groups(text) for text in texts])
    assert np.allclose(hashed_groups(pa.array(texts, pa.large_string())), expected)


def test_hashed_texts_have_the_cosine_of_their_counts():
    """The mean over many pairs of texts of (hashed - exact cosine) is within 4 standard errors of 0."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    texts = ["".join(rng.choice(letters, 60)) for _ in range(300)]
    rows = hashed_groups(pa.array(texts))

    def counts(text: str) -> dict[str, int]:
        text = f" {' '.join(text.split())} "
        return {text[i : i + 3]: text.count(text[i : i + 3]) for i in range(len(text) - 2)}

    differences = []
    for i in range(0, 300, 2):
        a, b = counts(texts[i]), counts(texts[i + 1])
        exact = sum(n * b.get(u, 0) for u, n in a.items()) / math.hypot(*a.values()) / math.hypot(*b.values())
        differences.append(rows[i] @ rows[i + 1] - exact)
    assert abs(np.mean(differences)) < 4 * np.std(differences) / len(differences) ** 0.5


def test_years_are_those_of_the_calendar():
    assert (datetime(2400, 1, 1) - datetime(2000, 1, 1)).total_seconds() == YEAR * 400


# Files


def csv(tmp_path, text: str, name: str = "t.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_one_wrong_cell_is_the_one_that_is_named(tmp_path):
    """U11: a file in which one cell is wrong is text throughout, but the cell is found."""
    encoder = TableEncoder().fit(csv(tmp_path, "age,n\n" + "39,1\n40.5,2\n" * 10))
    Z = encoder.transform(csv(tmp_path, "age,n\n39,1\nunknown,2\n", "missing.csv"))
    assert Z.shape == (2, 2)
    with refuses(ValueError, "'age'", "'4O'"):
        encoder.transform(csv(tmp_path, "age,n\n39,1\n41,1\n4O,2\n", "wrong.csv"))


def test_later_files_are_read_as_the_first_was(tmp_path):
    """Cells that alone would mean something else: 1.234 is a thousand, 1 is a level, NA is Namibia."""
    rows = "".join(
        f"{i}.5{i}0,5;{k};{c}\n" for i, k, c in zip(range(1, 9), "12X" * 3, ["NA", "DE", "FR", "ZA"] * 2)
    )
    encoder = TableEncoder(dtype="float64").fit(csv(tmp_path, "v;k;c\n" + rows))
    assert [column.role for column in encoder.columns_] == ["numeric", "category", "category"]
    Z = encoder.transform(csv(tmp_path, "v;k;c\n1.234;1;NA\n", "one.csv"))
    assert Z[0, 0] * encoder.columns_[0].scale + encoder.columns_[0].mean == pytest.approx(1234)
    names = encoder.get_feature_names_out()
    assert sorted(names[Z[0] == 1].tolist()) == ["c=NA", "k=1"]
    assert encoder.inverse_transform(Z)["c"].to_pylist() == ["NA"]


def test_the_way_of_reading_does_not_depend_on_the_source(tmp_path):
    frame = pd.DataFrame(
        {
            "v": [f"{i},5" for i in range(30)],
            "d": [f"{1 + i % 28}/3/2020" for i in range(30)],
            "b": ["yes", "no"] * 15,
            "c": ["DE", "NA", "FR", "n/a", "US"] * 6,
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    expected = TableEncoder().fit(frame)
    for data in (tmp_path / "t.csv", tmp_path / "t.parquet", frame.to_dict("list"), open_source(frame)):
        encoder = TableEncoder().fit(data)
        assert encoder.describe() == expected.describe()
        assert np.array_equal(encoder.transform(data), expected.transform(frame))
    assert expected.columns_[3].levels == ["DE", "FR", "NA", "US"]


def test_mixed_objects_are_numbers_where_they_can_be():
    """U22."""
    frame = pd.DataFrame({"v": [1, "2", 3.5, None] * 5, "w": [1, "x", 2.0, "x"] * 5}, dtype=object)
    encoder = TableEncoder(dtype="float64").fit(frame)
    assert [column.role for column in encoder.columns_] == ["numeric", "category"]
    assert encoder.columns_[0].mean == pytest.approx(6.5 / 3)
    assert encoder.columns_[1].levels == ["x", "1", "2"]
    assert np.array_equal(encoder.transform(frame[:3]), encoder.transform(frame)[:3])


def test_categories_of_whole_numbers_by_request(tmp_path):
    encoder = TableEncoder(columns={"zip": "category"}).fit({"zip": [1067.0, 4109.0, None] * 5})
    assert encoder.columns_[0].levels == ["1067", "4109"]
    assert np.array_equal(
        encoder.transform({"zip": [4109, 1067]}), encoder.transform({"zip": [4109.0, 1067.0]})
    )


def test_examples_are_shown_and_not_stored():
    encoder = TableEncoder().fit({"v": ["1,5", "2,5"], "names": ["u", "v"]})
    assert encoder.examples_ == {"v": "1,5", "names": "u"}
    assert {key for key in vars(encoder) if key.startswith("_")} == {"_examples", "_parts"}
