"""A Gaussian process: predictions that know how sure they are, and the next row to measure."""

import numpy as np

from krepes.machines import GaussianProcessClassifier, GaussianProcessRegressor

draws = np.random.default_rng(0)
X = np.concatenate([draws.uniform(-4, -1, size=(40, 1)), draws.uniform(1, 4, size=(40, 1))])  # none near zero
y = np.sin(2 * X[:, 0]) + 0.1 * draws.normal(size=80)

model = GaussianProcessRegressor(random_state=0).fit(X, y)
print(model.choice_)
print(f"noise {model.noise_std_:.3f}, evidence {model.log_marginal_likelihood_:.1f}")

grid = np.linspace(-5, 5, 201)[:, None]
mean, std = model.predict(grid, return_std=True)
for x in (-2.0, 0.0, 5.0):
    place = np.abs(grid[:, 0] - x).argmin()
    print(f"f({x:+.0f}) = {mean[place]:+.2f} ± {std[place]:.2f}")
inner = np.abs(grid[:, 0]) < 4
print(f"measure next at {grid[inner][std[inner].argmax(), 0]:+.2f}, where it is least known")

functions = model.sample_y(grid, n_samples=3, random_state=0)  # three that the data allow
print(f"sample functions {functions.shape}; at zero they are {functions[100].round(2).tolist()}")

# More rows, without the earlier ones.
near = draws.uniform(-1, 1, size=(20, 1))
model.partial_fit(near, np.sin(2 * near[:, 0]) + 0.1 * draws.normal(size=20))
print(
    f"after 20 more rows: f(0) = {model.predict([[0.0]])[0]:+.2f} ± {model.predict([[0.0]], return_std=True)[1][0]:.2f}"
)

# Classes: even far away, where nothing was seen.
classes = GaussianProcessClassifier(random_state=0).fit(X, X[:, 0] > 0)
print(
    f"right of zero: {classes.predict_proba([[2.0], [0.0], [1e4]])[:, 1].round(2).tolist()} at 2, 0 and 10 000"
)
