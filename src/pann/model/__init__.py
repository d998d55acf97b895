"""A model: a network, a polynomial, and the coefficients of both."""

from pann.model.pann import PANN, Parameters, initial_parameters, trainable

__all__ = ["PANN", "Parameters", "initial_parameters", "trainable"]
