"""The project's own spectral solver for periodic evolution equations: NumPy, no networks.

What `pann.solve` finds is compared with it. Fourier modes in space with the 2/3 rule, exponential
time differencing of fourth order in time, float64; values at any points by interpolation.
"""

from pann.reference.etdrk4 import etdrk4
from pann.reference.evolution import Evolution, stored_times
from pann.reference.grid import PeriodicGrid
from pann.reference.solution import Reference

__all__ = ["Evolution", "PeriodicGrid", "Reference", "etdrk4", "stored_times"]
