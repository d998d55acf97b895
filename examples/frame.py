"""Ten lines on a data frame: fit, score, look at the halves and the terms, save, load."""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import pann

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = pann.PANNRegressor(random_state=0).fit(X_train, y_train)
print(f"R2 on the test rows: {model.score(X_test, y_test):.3f} ({model.how_}, {model.degree_=})")
for term in model.terms_[:5]:
    print(f"{term.coefficients[0]:+9.2f} * {term.name}")
network, polynomial = model.parts(X_test)

model.save("diabetes.pann")
assert (pann.load("diabetes.pann").predict(X_test) == network + polynomial).all()
