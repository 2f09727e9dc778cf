"""One sum for every hospital: what each of them does to the model of all, without its rows."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier

data = load_breast_cancer(as_frame=True)
hospitals = np.array(["north", "south", "east", "west"])
frame = data.data.assign(hospital=hospitals[np.random.default_rng(0).integers(4, size=len(data.data))])

model = KernelEmbedding(8, n_landmarks=100, random_state=0).fit(frame, groups="hospital")
print("rows by hospital:", model.groups_)

# The subspace of the representation, with and without each hospital.
Z = model.rescaled("unit").transform(frame)
for name in model.groups_:
    left = model.without(name).rescaled("unit").transform(frame)
    shared = np.linalg.svd(np.linalg.qr(Z)[0].T @ np.linalg.qr(left)[0])[1]
    print(
        f"without {name}: {np.degrees(np.arccos(shared.min().clip(0, 1))):.1f} degrees from the model of all"
    )

# A machine that predicts the rows of one hospital from those of the others.
machine = KernelRidgeClassifier(n_landmarks=100, random_state=0).fit(frame, data.target, groups="hospital")
for name in machine.groups_:
    here = (frame.hospital == name).to_numpy()
    found = machine.without(name).score(frame[here], data.target[here])
    print(f"{name}, predicted from the others: {100 * found:.1f} % right")

# A hospital withdraws its data: the model loses them, and says what may still depend on them.
print("still dependent:", ", ".join(machine.forget_groups("west")))
print("left:", pd.Series(machine.groups_).to_dict())
