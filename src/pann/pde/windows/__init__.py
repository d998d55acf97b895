"""One window of time: a spectral collocation system in space and time, and Newton's method on it."""
