"""What an ONNX file says of rows, and how near it must come to krepes."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-5
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(uint8)": np.uint8}


def outputs_of(path, feeds):
    """What onnxruntime says of rows."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {
        each.name: feeds[each.name].astype(TYPES.get(each.type, object)) for each in session.get_inputs()
    }
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, given)))


def scored(model, feeds, path, **options):
    """What onnxruntime says of rows, of a model that is written first."""
    model.to_onnx(path, overwrite=True, **options)
    return outputs_of(path, feeds)


def assert_near(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        found, expected, rtol=TOLERANCE, atol=TOLERANCE * max(1, np.abs(expected).max())
    )
