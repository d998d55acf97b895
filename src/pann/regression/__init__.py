"""Data: fits, tables, the scikit-learn estimator."""

from pann.regression.batch import num_fits_that_fit

__all__ = ["num_fits_that_fit"]
