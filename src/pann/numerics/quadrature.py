"""The Gauss-Legendre rule, with weights that stay accurate where nodes are many."""

import functools

import numpy as np
import scipy.special
from jaxtyping import Float


@functools.lru_cache(maxsize=64)
def gauss_legendre(num_nodes: int) -> tuple[Float[np.ndarray, " nodes"], ...]:
    """Nodes on [-1, 1], and weights that sum to 1: w = 1 / sum_k (2k + 1) P_k(x)^2, k < n.

    SciPy's weights are 1 / (P_n'(x) P_{n-1}(x)), which at 1,000 nodes has eight digits near the
    ends, these Christoffel numbers eleven. The arrays are read-only: they are shared.
    """
    nodes, _ = scipy.special.roots_legendre(num_nodes)
    before, now = np.zeros(num_nodes), np.ones(num_nodes)
    total = np.zeros(num_nodes)
    for k in range(num_nodes):
        total += (2 * k + 1) * now**2
        before, now = now, ((2 * k + 1) * nodes * now - k * before) / (k + 1)
    weights = 1 / total
    weights /= weights.sum()
    for array in (nodes, weights):
        array.flags.writeable = False
    return nodes, weights
