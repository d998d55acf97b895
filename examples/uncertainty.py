"""Uncertainty from an ensemble: five networks from five starts, their mean and deviation."""

import numpy as np

import pann

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -0.7, 150), rng.uniform(0.7, 3, 150)])  # a gap at zero
y = np.sin(2 * x) + 0.05 * rng.normal(size=len(x))

recipe = (pann.Adam(4000, pann.Cosine(1e-2), patience=1000),)
model = pann.PANNRegressor(degree=1, width=24, trials=5, recipe=recipe, random_state=0)
model.fit(x[:, None], y)
mean, deviation = model.predict(np.linspace(-3, 3, 13)[:, None], return_std=True)
for where, value, spread in zip(np.linspace(-3, 3, 13), mean, deviation, strict=True):
    bar = "#" * round(40 * spread)
    print(f"x = {where:+.1f}   u = {value:+.3f} ± {spread:.3f}  {bar}")
