"""
A model that leaves krepes
==========================

Write a model as an ONNX file, use it as a torch module inside a network, and make a page of it that scores rows. Needs
the extra ``onnx``. The table is made up: what a house costs, by its size, its district and its garden.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import torch

from krepes.machines import KernelRidgeRegressor
from krepes.report.scoring_page import write_scoring_page

rng = np.random.default_rng(0)
n = 400
houses = pd.DataFrame(
    {
        "size": rng.normal(120, 30, n).round(),
        "district": rng.choice(["north", "south", "harbour"], n),
        "garden": rng.choice(["yes", "no"], n),
    }
)
price = 3 * houses["size"] + 80 * (houses["district"] == "harbour") + rng.normal(0, 10, n)
model = KernelRidgeRegressor(random_state=0).fit(houses, price.to_numpy())

model.to_onnx("houses.onnx", confidence=0.9, data=houses, overwrite=True)
session = onnxruntime.InferenceSession("houses.onnx", providers=["CPUExecutionProvider"])
feeds = {
    "size": houses[["size"]].to_numpy(np.float64),  # numbers are double, NaN where missing
    "district": houses[["district"]].to_numpy(object),  # words are strings, "" where missing
    "garden": houses[["garden"]].to_numpy(object),
}
prediction, lower, upper = session.run(["prediction", "lower", "upper"], feeds)
print("largest difference to krepes:", np.abs(prediction - model.predict(houses)).max())
print("prices within the interval:", np.mean((lower <= price) & (price <= upper)))

module = model.as_module(dtype="float64")
encoded = torch.from_numpy(model.input_space_.encoder.transform(houses[:1])).double().requires_grad_()
module(encoded).sum().backward()
names = model.input_space_.encoder.get_feature_names_out()
print("slope of the first price:", dict(zip(names, encoded.grad[0].numpy().round(1).tolist())))

write_scoring_page(model, Path("houses.html"), overwrite=True)
