"""
Rows unlike all others
======================

Find unusual rows with a false-alarm rate that you choose, and learn which columns make them unusual.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from krepes.machines import NoveltyDetector

rng = np.random.default_rng(0)


def readings(n: int) -> pd.DataFrame:
    """A pump: heat and current follow its load."""
    load = rng.gamma(4, 1, size=n)
    heat, current = 20 + 5 * load + rng.normal(size=n), 2 * load + 0.3 * rng.normal(size=n)
    return pd.DataFrame(
        {"load": load, "heat": heat, "current": current, "mode": rng.choice(["day", "night"], n)}
    )


# %%
# At most five false alarms in a hundred are asked for. New readings of the same pump show that this holds.
model = NoveltyDetector(false_alarm_rate=0.05, random_state=0).fit(readings(500))
print(f"false alarms among 2000 new readings: {100 * (model.predict(readings(2000)) == -1).mean():.1f} %")

# %%
# In the last of three batches heat no longer follows load, though every single value is an ordinary one.
broken = readings(40)
broken["heat"] = rng.permutation(broken["heat"].to_numpy())
batches = [readings(40), readings(40), broken]
for reading in model.monitor(batches):
    print(f"from row {reading.first_row}: {reading.alarms.sum()} alarms; by chance: p = {reading.chance:.2g}")

# %%
# Why? The columns that deviate, and the nearest known row.
alarm = model.predict(broken) == -1
print(model.explain(broken[alarm][:2], n_landmarks=1))

# %%
# The alarms of the last batch, among readings that are normal.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(5.5, 4), layout="constrained")
normal = readings(300)
axis.scatter(normal["load"], normal["heat"], s=12, color="C2", label="normal")
axis.scatter(*broken[~alarm][["load", "heat"]].T.to_numpy(), s=35, color="C0", label="last batch")
axis.scatter(*broken[alarm][["load", "heat"]].T.to_numpy(), s=55, color="C1", marker="X", label="alarm")
axis.set(xlabel="load", ylabel="heat")
axis.legend(frameon=False)
plt.show()
