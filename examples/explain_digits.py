"""Which examples is a digit made of? Landmarks, a sum of few of them, a concept, a report, and spectra.

python examples/explain_digits.py
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import (
    Concept,
    attribution,
    coefficient_spectrum,
    effective_rank,
    faithfulness,
    re_expansion,
    top_landmarks,
)
from krepes.report import write_report
from krepes.solvers import SGD

images, digits = load_digits().images / 16, load_digits().target
model = KernelEmbedding(16, n_landmarks=200, random_state=0).fit(images[:1500])
new = images[1502:1503]

print(
    "a", digits[1502], "and the training images that explain it:", digits[top_landmarks(model, new).rows[0]]
)
print(re_expansion(model, new, n_top=3).words(0))
print(
    faithfulness(
        model, images[:1500], digits[:1500], methods=["contributions", "re_expansion", "kernel"], n_rows=100
    )
)
parts = attribution(model, new, direction=0, form="values")
print(
    f"component 0 is {parts.sum() + model.intercept_[0]:.3f}:",
    np.round(np.sort(parts[0])[[0, 1, -2, -1]], 2),
    "...",
)

loops = np.isin(digits[:1500], (0, 6, 8, 9))
concept = Concept(
    images[:1500][loops][:200], images[:1500][~loops][:200], name="a closed loop", n_permutations=20
)
concept.fit(model)
print(f"concept {concept.name}: balanced accuracy {concept.accuracy_:.2f}, p = {concept.p_value_:.2f}")

folder = Path(tempfile.mkdtemp())
write_report(model, images, folder / "digits.html", labels=digits, concepts=[concept], title="Digits")

figure, axis = plt.subplots(figsize=(5.5, 3.5))
for name, settings in {
    "none": {"coordinates": "landmarks"},
    "general": {"coordinates": "landmarks", "preconditioner": "kernel"},
    "Gauss-Newton": {"preconditioner": "gauss_newton", "warmup_epochs": 0.0},
}.items():
    solver = SGD(max_epochs=5, **settings)
    trained = KernelEmbedding(16, loss="barlow_twins", n_landmarks=200, solver=solver, random_state=0).fit(
        images[:1500]
    )
    values = coefficient_spectrum(trained)
    axis.semilogy(
        values / values[0], marker=".", label=f"{name}, effective rank {effective_rank(values):.1f}"
    )
axis.set(
    xlabel="direction", ylabel="eigenvalue of AᵀA, relative", title="Barlow Twins by preconditioner, 5 epochs"
)
axis.legend(frameon=False)
figure.tight_layout()
figure.savefig(folder / "spectrum.png", dpi=120)
print("wrote", folder / "digits.html", "and", folder / "spectrum.png")
