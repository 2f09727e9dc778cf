"""Public names and their parameters stay: what changes on purpose changes the snapshot too."""

from __future__ import annotations

import json

import pytest

from public_names import SNAPSHOT, public_names

EXPLAIN = "Is this on purpose? Then say so in the changelog and run python tests/public_names.py."


@pytest.fixture(scope="module")
def names() -> tuple[dict, dict]:
    return json.loads(SNAPSHOT.read_text()), public_names()


def test_no_public_name_has_gone(names):
    before, now = names
    assert not before.keys() - now.keys(), EXPLAIN


def test_no_parameter_method_or_attribute_has_changed(names):
    before, now = names
    changed = {
        name: (before[name], now[name]) for name in before.keys() & now.keys() if before[name] != now[name]
    }
    assert not changed, EXPLAIN


def test_new_names_are_in_the_snapshot(names):
    before, now = names
    assert not now.keys() - before.keys(), "New public names: run python tests/public_names.py."
