"""A spectral solver for periodic evolution equations, with NumPy and without networks.

The solutions of `pann.solve` are compared with it. Fourier modes in space with the 2/3 rule,
exponential time differencing of fourth order in time, float64; values at any points by
interpolation.
"""

from pann.reference.etdrk4 import etdrk4
from pann.reference.evolution import Equation, Evolution, stored_times
from pann.reference.grid import PeriodicGrid
from pann.reference.solution import Reference

__all__ = ["Equation", "Evolution", "PeriodicGrid", "Reference", "etdrk4", "stored_times"]
