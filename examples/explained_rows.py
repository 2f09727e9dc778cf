"""
Ten digits and ten people, explained
====================================

Two ways to explain a row beside each other: the largest terms of the model's sum, and the real rows that it is made of.
The second picture needs a table: ``python examples/explained_rows.py adult.parquet``.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import explain
from krepes.explain.expansion import Expansion, all_values
from krepes.explain.faithfulness import terms

images, digits = load_digits().images / 16, load_digits().target
model = KernelEmbedding(32, n_landmarks=500, random_state=0).fit(images[:1297])
new = np.arange(1300, 1310)
made = explain(model, images[new], n_top=5)
largest = np.argsort(
    -all_values(model, images[new], lambda K: terms(Expansion.of(model))(K.double())), axis=1
)
before = model.landmark_indices_[largest[:, :5]]
figure, axes = plt.subplots(10, 12, figsize=(9, 8.5))
for axis in axes.flat:
    axis.set_axis_off()
for line, row, old, rows, shares in zip(axes, new, before, made.rows, made.shares):
    line[0].imshow(images[row], cmap="Greys")
    for axis, landmark in zip(line[1:6], old):
        axis.imshow(images[landmark], cmap="Greys" if digits[landmark] == digits[row] else "Reds")
    for axis, landmark, share in zip(line[7:], rows, shares):
        axis.imshow(images[landmark], cmap="Greys" if digits[landmark] == digits[row] else "Reds")
        axis.set_title(f"{share:.0%}", fontsize=8, pad=1)
axes[0, 3].set_title("before: largest terms", fontsize=10)
axes[0, 0].set_title("row", fontsize=10)
figure.text(0.6, 0.95, "now: made of, with shares (another digit is red)", fontsize=10)
figure.savefig("explain_digits.png", dpi=100)

if len(sys.argv) > 1:
    table = pd.read_parquet(sys.argv[1]).sample(3010, random_state=0).reset_index(drop=True)
    income = table.pop("income")
    table = table.drop(columns=[name for name in ("split", "fnlwgt") if name in table])
    people = KernelEmbedding(32, n_landmarks=500, random_state=0).fit(table[:3000])
    asked = table[3000:]
    made = explain(people, asked, n_top=2)
    values = all_values(people, asked, lambda K: terms(Expansion.of(people))(K.double()))
    before = people.landmark_indices_[np.argsort(-values, axis=1)[:, :2]]
    shown = ["age", "education", "occupation", "marital-status", "hours-per-week"]
    shown = [name for name in shown if name in table]

    def words(i: int) -> str:
        return ", ".join(str(table[name][i]) for name in shown)[:64] + f" ({str(income[i]).strip()})"

    figure = plt.figure(figsize=(13, 10))
    for place, row in enumerate(asked.index):
        top = 0.96 - 0.096 * place
        figure.text(0.01, top, words(row), fontsize=9, weight="bold")
        for k in range(2):
            figure.text(
                0.03, top - 0.026 * (k + 1), f"before  {words(before[place, k])}", fontsize=8, color="#8b949e"
            )
            share = made.shares[place, k]
            figure.text(
                0.51, top - 0.026 * (k + 1), f"now {share:.0%}  {words(made.rows[place, k])}", fontsize=8
            )
    figure.savefig("explain_adult.png", dpi=90)
