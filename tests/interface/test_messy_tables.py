"""Tables as people have them: each file of tests/fixtures/messy teaches one lesson, which its manifest states."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from krepes import TableEncoder

MESSY = Path(__file__).parents[1] / "fixtures" / "messy"
MANIFEST = json.loads((MESSY / "manifest.json").read_text("utf-8"))


def test_every_file_has_its_lesson():
    assert len(MANIFEST) >= 40
    assert {path.name for path in MESSY.iterdir()} == {*MANIFEST, "manifest.json"}


@pytest.mark.parametrize("name", MANIFEST)
def test_the_roles_of_a_messy_table(name):
    """Roles and what is said of them; warnings where something is guessed or lost, and nowhere else; the rows can
    be encoded."""
    lesson = MANIFEST[name]
    encoder = TableEncoder(**lesson.get("options", {}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder.fit(MESSY / name)
    roles = {column: (role, detail) for column, role, detail, _ in encoder.describe()}
    assert list(roles) == list(lesson["roles"])
    for column, (role, detail) in lesson["roles"].items():
        assert roles[column][0] == role, (column, roles[column])
        assert re.search(detail, roles[column][1]), (column, roles[column])
    said = " ".join(str(warning.message) for warning in caught)
    assert re.search(lesson["warns"], said) if "warns" in lesson else not said, said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z = encoder.transform(MESSY / name)
    assert np.isfinite(Z).all()
    assert Z.shape[1] == encoder.n_features_out_
