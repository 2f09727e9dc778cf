"""
Predictions that know how sure they are
=======================================

A Gaussian process gives a standard deviation with every prediction, and says where to measure next.
"""

import matplotlib.pyplot as plt
import numpy as np

from krepes.machines import GaussianProcessClassifier, GaussianProcessRegressor

draws = np.random.default_rng(0)
X = np.concatenate([draws.uniform(-4, -1, size=(40, 1)), draws.uniform(1, 4, size=(40, 1))])  # none near zero
y = np.sin(2 * X[:, 0]) + 0.1 * draws.normal(size=80)

# %%
# Kernel and noise are chosen by the evidence.
model = GaussianProcessRegressor(random_state=0).fit(X, y)
print(model.choice_)
print(f"noise {model.noise_std_:.3f}, evidence {model.log_marginal_likelihood_:.1f}")

# %%
# Between the two groups of rows, and beyond them, the model is less sure.
grid = np.linspace(-5, 5, 201)[:, None]
mean, std = model.predict(grid, return_std=True)
for x in (-2.0, 0.0, 5.0):
    place = np.abs(grid[:, 0] - x).argmin()
    print(f"f({x:+.0f}) = {mean[place]:+.2f} ± {std[place]:.2f}")
inner = np.abs(grid[:, 0]) < 4
print(f"measure next at {grid[inner][std[inner].argmax(), 0]:+.2f}, where it is least known")

functions = model.sample_y(grid, n_samples=3, random_state=0)  # three that the data allow
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axis.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color="C4", alpha=0.35, label="mean ± 2 std")
axis.plot(grid[:, 0], functions, color="C3", linewidth=0.8)
axis.plot(grid[:, 0], mean, color="C0", linewidth=2.5)
axis.scatter(X, y, s=14, color="C1", zorder=3, label="rows")
axis.set(xlabel="x", ylabel="target")
axis.legend(frameon=False, loc="upper left", ncols=2)
plt.show()

# %%
# More rows, without the earlier ones.
near = draws.uniform(-1, 1, size=(20, 1))
model.partial_fit(near, np.sin(2 * near[:, 0]) + 0.1 * draws.normal(size=20))
print(
    f"after 20 more rows: f(0) = {model.predict([[0.0]])[0]:+.2f} ± {model.predict([[0.0]], return_std=True)[1][0]:.2f}"
)

# %%
# Classes: even far away, where nothing was seen.
classes = GaussianProcessClassifier(random_state=0).fit(X, X[:, 0] > 0)
print(
    f"right of zero: {classes.predict_proba([[2.0], [0.0], [1e4]])[:, 1].round(2).tolist()} at 2, 0 and 10 000"
)
