"""A PANN as a step of a scikit-learn pipeline, its degree chosen by cross-validation."""

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pann

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
y = X[:, 0] ** 3 - 2 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=400)

pipeline = make_pipeline(StandardScaler(), pann.PANNRegressor(width=0, random_state=0))
search = GridSearchCV(pipeline, {"pannregressor__degree": [1, 2, 3, 4]}, cv=4).fit(X, y)
print(f"best degree: {search.best_params_['pannregressor__degree']}, R2 {search.best_score_:.3f}")
