"""A stream whose columns change their dependence: a monitor sees it, and a window follows."""

import numpy as np

from krepes import KernelEmbedding
from krepes.streams import DriftMonitor, Window

rng = np.random.default_rng(0)


def sensors(n: int, sign: float = 1.0) -> np.ndarray:
    """Two sensors that agree (sign 1) or oppose each other (-1), and two that know nothing of them."""
    X = rng.normal(size=(n, 4))
    X[:, 1] = sign * 0.9 * X[:, 0] + 0.4 * X[:, 1]
    return X


model = KernelEmbedding(4, n_landmarks=150, random_state=0).fit(sensors(2000))
monitor = DriftMonitor(model, window=500, average_run_length=50_000).fit(sensors(5000))
window = Window(model, n_rows=2000)

changed_at, seen = 4000, 0
for _ in range(40):
    X = sensors(200, sign=1.0 if seen < changed_at else -1.0)  # every column alone looks as before
    seen += len(X)
    window.add(X)
    alarms = [reading for reading in monitor.add(X) if reading.alarm]
    if alarms and seen > changed_at:
        print(f"changed at row {changed_at:,}; {alarms[0]}")
        break

# The window has left the old rows behind after 2000 more; the faded model does so gradually.
for _ in range(10):
    window.add(sensors(200, sign=-1.0))
faded = model.empty_copy()
for start in range(10):
    faded.partial_fit(sensors(400, sign=1.0 if start < 5 else -1.0), half_life=500)
print(f"window: {window.model.n_samples_seen_:,} rows; faded: rows that count {faded.moments_.n:,.0f}")
