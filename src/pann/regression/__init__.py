"""Data: fits, tables, the scikit-learn estimator."""
