"""A model: a network, a polynomial, and the coefficients of both."""
