"""The ways to solve a problem, behind `pann.solve`."""
