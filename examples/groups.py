"""
What does each hospital do to the model?
========================================

One fit keeps a sum for every group of rows. Any group can then be left out, or taken back, without its rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from krepes.machines import KernelRidgeClassifier

data = load_breast_cancer(as_frame=True)
hospitals = np.array(["north", "south", "east", "west"])
frame = data.data.assign(hospital=hospitals[np.random.default_rng(0).integers(4, size=len(data.data))])

machine = KernelRidgeClassifier(n_landmarks=100, random_state=0).fit(frame, data.target, groups="hospital")
print("rows by hospital:", machine.groups_)

# %%
# ``without`` gives the model of all other hospitals. No row is read again.
shares = {}
for name in machine.groups_:
    here = (frame["hospital"] == name).to_numpy()
    rows, target = frame[here], data.target[here]
    shares[name] = [100 * m.score(rows, target) for m in (machine, machine.without(name))]
    print(f"{name}: {shares[name][0]:.1f} % right with its rows, {shares[name][1]:.1f} % without")

# %%
# A hospital withdraws its data. The model forgets them, and names what may still depend on them.
left = machine.forget_groups("west")
print("left:", machine.groups_)
print("may still depend on the rows:", ", ".join(left))

# %%
# The orange points are the honest ones: a hospital that the model has never seen.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
known, unknown = np.array(list(shares.values())).T
axis.hlines(list(shares), unknown, known, color="C2", linewidth=2)
axis.scatter(known, list(shares), s=220, color="C4", label="its rows were in the fit", zorder=2)
axis.scatter(unknown, list(shares), s=60, color="C1", marker="s", label="its rows were left out", zorder=2)
axis.margins(y=0.2)
axis.set(xlabel="right predictions, %", ylabel="hospital")
figure.legend(loc="outside upper center", ncols=2, frameon=False)
plt.show()
