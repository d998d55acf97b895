"""Windows of time: spectral collocation in space and time, and Newton's method on each."""
