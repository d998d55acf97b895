"""The machine: compilation, memory, chunks of points, devices, time limits, progress, caches."""
