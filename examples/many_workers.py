"""
Models that add up
==================

Each worker sees a part of the data and sends a file. Merged, the files are the model of all rows.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelEmbedding, load

X, digits = load_digits().images / 16, load_digits().target
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)

# %%
# One model fixes what all must share: scales, kernel, landmarks, views. A sample of the rows is enough.
base = KernelEmbedding(2, n_landmarks=200, random_state=0).partial_fit(X[:400])
base.save(folder / "base.krepes")


def work(first: int, last: int) -> Path:
    """What runs on another machine, with its own rows and the file of the base."""
    part = load(folder / "base.krepes").empty_copy()
    part.partial_fit(X[first:last], first_row=first)  # where the part lies: it keys the random views
    part.save(folder / f"part-{first}.krepes")
    return folder / f"part-{first}.krepes"


# %%
# Three workers, merged, against one that sees everything.
files = [work(0, 600), work(600, 1200), work(1200, len(X))]
merged = load(files[0]).merge(load(files[1])).merge(load(files[2]))
alone = base.empty_copy().partial_fit(X)
Z, Z_alone = merged.transform(X), alone.transform(X)
print(
    f"{merged.n_samples_seen_} rows seen; merged and single model differ by {np.abs(Z - Z_alone).max():.0e}"
)

# %%
# The file of one worker is a model too, but only of its part. The merged one is the same as the one of all rows.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), sharex=True, sharey=True, layout="constrained")
panels = {
    "first worker alone": load(files[0]).transform(X),
    "three workers, merged": Z,
    "one for all": Z_alone,
}
for axis, (name, points) in zip(axes, panels.items()):
    for digit, colour in ((0, "C0"), (1, "C1"), (4, "C3"), (6, "C4")):
        axis.scatter(*points[digits == digit].T, s=6, color=colour, label=f"digit {digit}")
    axis.set(title=name, xlabel="component 0")
axes[0].set_ylabel("component 1")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, markerscale=3, frameon=False
)
temporary.cleanup()
plt.show()
