"""
A stream that changes
=====================

Watch a stream for drift that no single column shows, and let a window follow the change.
"""

import matplotlib.pyplot as plt
import numpy as np

from krepes import KernelEmbedding
from krepes.streams import DriftMonitor, Window

rng = np.random.default_rng(0)


def sensors(n: int, sign: float = 1.0) -> np.ndarray:
    """Two sensors that agree (sign 1) or oppose each other (-1), and two that know nothing of them."""
    X = rng.normal(size=(n, 4))
    X[:, 1] = sign * 0.9 * X[:, 0] + 0.4 * X[:, 1]
    return X


# %%
# The monitor may raise one false alarm in 50 000 rows on average. The window holds the last 2000 rows.
model = KernelEmbedding(4, n_landmarks=150, random_state=0).fit(sensors(2000))
monitor = DriftMonitor(model, window=500, average_run_length=50_000).fit(sensors(5000))
window = Window(model, n_rows=2000)

# %%
# At row 4000 the two sensors begin to oppose each other. Every column alone looks as before.
changed_at, seen, readings = 4000, 0, []
while seen < 8000:
    X = sensors(200, sign=1.0 if seen < changed_at else -1.0)
    seen += len(X)
    window.add(X)
    readings += monitor.add(X)
alarm = next(reading for reading in readings if reading.alarm)
print(alarm)
print(f"the window now describes {window.model.n_samples_seen_:,} rows, all after the change")

# %%
# The angle between the main directions of the last 500 rows and of the reference. The alarm comes before it rises,
# because rows that the landmarks do not describe are noticed first.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot([r.n_rows for r in readings], [r.angle for r in readings], color="C0", linewidth=2)
axis.axvline(changed_at, color="C3", linestyle=":", label="the sensors change")
axis.axvline(alarm.n_rows, color="C1", linestyle="--", label="first alarm")
axis.set(xlabel="row of the stream", ylabel="angle to the reference, degrees", ylim=(0, None))
axis.legend(frameon=False, loc="upper left")
plt.show()
