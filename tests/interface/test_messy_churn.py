"""A churn table as it comes from several systems loses nothing against the same table cleaned by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from krepes import KernelEmbedding, TableEncoder
from krepes.machines import KernelRidgeClassifier

POINTS = 0.02


def churn(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """The table with messy cells, the same with clean ones, and who left."""
    rng = np.random.default_rng(seed)
    charges = rng.lognormal(8.5, 0.8, n)
    share = rng.integers(0, 101, n)
    usage = rng.gamma(2.0, 6.0, n)
    joined = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 1700, n), unit="D")
    contact = pd.Timestamp("2022-09-01") + pd.to_timedelta(rng.integers(0, 100 * 24 * 60, n), unit="min")
    balance = rng.normal(0, 900, n)
    paperless = rng.random(n) < 0.4
    country = rng.choice(["DE", "FR", "NA", "ZA"], n, p=[0.4, 0.3, 0.2, 0.1])
    hour = contact.hour + contact.minute / 60
    score = (
        1.2 * (np.log(charges) - 8.5) / 0.8
        - 1.1 * (share - 50) / 29
        + 0.8 * (usage - 12) / 8.5
        + 1.0 * (joined.year + joined.day_of_year / 365 - 2020.3) / 1.35
        + 0.7 * np.cos(2 * np.pi * (hour - 20) / 24)
        - 0.6 * balance / 900
        + 0.8 * paperless
        + 1.2 * (country == "NA")
    )
    y = score + rng.logistic(0, 0.6, n) > np.median(score)
    lost = {name: rng.random(n) < 0.03 for name in ("charges", "usage", "joined")}
    clean = pd.DataFrame(
        {
            "charges": np.where(lost["charges"], np.nan, charges.round(2)),
            "share": share,
            "usage": np.where(lost["usage"], np.nan, usage.round(1)),
            "joined": joined.where(~lost["joined"]),
            "contact": contact,
            "balance": balance.round(2),
            "paperless": paperless,
            "country": np.where(country == "NA", "Namibia", country),
        }
    )
    messy = pd.DataFrame(
        {
            "charges": np.where(lost["charges"], "-", [f"{v:,.2f}" for v in charges]),
            "share": [f"{v}%" for v in share],
            "usage": np.where(lost["usage"], "n/a", [f"{v:.1f}".replace(".", ",") for v in usage]),
            "joined": np.where(lost["joined"], "unknown", joined.strftime("%d/%m/%Y")),
            "contact": contact.strftime("%Y-%m-%dT%H:%M:%S"),
            "balance": [f"(${-v:,.2f})" if v < 0 else f"${v:,.2f}" for v in balance],
            "paperless": np.where(paperless, "Yes", "no"),
            "country": country,
        }
    )
    return messy, clean, y


def accuracies(train, test, y_train: np.ndarray, y_test: np.ndarray) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelEmbedding(64, n_landmarks=500, random_state=0).fit(train)
        probe = LogisticRegression(max_iter=2000).fit(model.transform(train), y_train)
        machine = KernelRidgeClassifier(kernel="gaussian", n_landmarks=500, random_state=0)
        machine.fit(train, y_train)
        return {
            "representation": probe.score(model.transform(test), y_test),
            "ridge machine": machine.score(test, y_test),
        }


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_messy_cells_lose_no_signal(tmp_path, seed):
    messy, clean, y = churn(4000, seed)
    messy[:2000].to_csv(tmp_path / "train.csv", index=False)
    messy[2000:].to_csv(tmp_path / "test.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roles = TableEncoder().fit(tmp_path / "train.csv").describe()
    assert [role for _, role, _, _ in roles] == ["numeric"] * 3 + ["date"] * 2 + ["numeric"] * 2 + [
        "category"
    ]
    found = accuracies(tmp_path / "train.csv", tmp_path / "test.csv", y[:2000], y[2000:])
    expected = accuracies(clean[:2000], clean[2000:].reset_index(drop=True), y[:2000], y[2000:])
    for name, accuracy in expected.items():
        assert accuracy > 0.75
        assert found[name] > accuracy - POINTS, (name, found, expected)
