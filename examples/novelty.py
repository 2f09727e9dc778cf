"""Rows that are unlike all others, with a false-alarm rate that holds; a stream that breaks; and why."""

import numpy as np
import pandas as pd

from krepes.machines import NoveltyDetector

rng = np.random.default_rng(0)


def readings(n: int) -> pd.DataFrame:
    """A pump: heat and current follow its load."""
    load = rng.gamma(4, 1, size=n)
    return pd.DataFrame(
        {
            "load": load,
            "heat": 20 + 5 * load + rng.normal(size=n),
            "current": 2 * load + 0.3 * rng.normal(size=n),
            "mode": rng.choice(["day", "night"], n),
        }
    )


model = NoveltyDetector(false_alarm_rate=0.05, random_state=0).fit(readings(500))
print(model.choice_)
print(
    f"{model.n_calibration_} rows calibrate; {100 * model.attainable_rate_:.2f} % false alarms are attainable"
)
print(f"false alarms among 2000 new readings: {100 * (model.predict(readings(2000)) == -1).mean():.2f} %")

# A stream: the heat no longer follows the load in the last batch, though every single value is an ordinary one.
broken = readings(40)
broken["heat"] = rng.permutation(broken["heat"].to_numpy())
for reading in model.monitor([readings(40), readings(40), broken]):
    print(reading)

# Why: the columns that deviate, and the nearest rows of the data.
alarms = broken[model.predict(broken) == -1]
print(model.explain(alarms[:3], n_landmarks=2))
