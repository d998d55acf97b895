"""Which variables matter: Sobol indices of a fitted model, and a picture of its halves."""

import numpy as np
import pandas as pd

import pann

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(0, 1, (600, 5)), columns=["a", "b", "c", "d", "unused"])
y = 10 * np.sin(np.pi * X.a * X.b) + 20 * (X.c - 0.5) ** 2 + 10 * X.d

model = pann.PANNRegressor(random_state=0).fit(X, y)
print(model.sobol_indices())
model.plot_parts().savefig("halves.png")
