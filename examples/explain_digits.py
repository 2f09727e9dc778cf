"""
Which examples is a digit made of?
==================================

Every number of a representation is a sum over real images. See which ones, test how faithful that is, and ask for a
concept.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import (
    Concept,
    coefficient_spectrum,
    effective_rank,
    explain,
    faithfulness,
)
from krepes.report import write_report
from krepes.solvers import SGD

images, digits = load_digits().images / 16, load_digits().target
model = KernelEmbedding(16, n_landmarks=200, random_state=0).fit(images[:1500])
new = images[1502:1503]

# %%
# The training images that a new one is made of, in shares that add up to what is explained.
found = explain(model, new, n_top=5)
print("a", digits[1502], "is made of", digits[found.rows[0]], np.round(found.shares[0], 2))
print(f"and {found.unexplained[0]:.0%} of it stay unexplained")
figure, axes = plt.subplots(1, 6, figsize=(8, 1.8), layout="constrained")
shown = [new[0], *images[found.rows[0]]]
for axis, image, share in zip(axes, shown, ["new image", *(f"{share:.0%}" for share in found.shares[0])]):
    axis.imshow(image, cmap="gray_r")
    axis.set(xticks=[], yticks=[], xlabel=share)
plt.show()

# %%
# Is the explanation faithful?
print(faithfulness(model, images[:1500], digits[:1500], n_rows=100))

# %%
# A concept is given by images that have it and images that do not.
loops = np.isin(digits[:1500], (0, 6, 8, 9))
concept = Concept(
    images[:1500][loops][:200], images[:1500][~loops][:200], name="a closed loop", n_permutations=20
)
concept.fit(model)
print(f"concept {concept.name}: balanced accuracy {concept.accuracy_:.2f}, p = {concept.p_value_:.2f}")

# %%
# The same for all rows, as one HTML page.
with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "digits.html"
    write_report(model, images, page, labels=digits, concepts=[concept], title="Digits")
    print(f"a page of {page.stat().st_size / 1e6:.1f} MB")

# %%
# How many directions do the coefficients use? Spectra for three preconditioners.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(5.5, 3.5), layout="constrained")
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
plt.show()
