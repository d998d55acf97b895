"""How many terms a basis has, by index set and dimension (paper, figure of index sets)."""

import pathlib
from collections.abc import Mapping
from typing import Any

from pann import Box
from pann.basis import make_basis
from pann.runs import Result, Row

INDEX_SETS = ("tensor_product", "total_degree", "hyperbolic_cross")
DEGREE = 8


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """Counting takes no time: all sizes are the same, and there is one mode."""
    if mode != "faithful":
        return []
    common = {"mode": mode, "degree": DEGREE, "trials": 1, "seed": 0, "revision": 1}
    return [
        Row("basis_sizes", common | {"index_set": kind, "dimension": dimension})
        for kind in INDEX_SETS
        for dimension in range(1, 6)
    ]


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Count the terms."""
    domain = Box.cube(configuration["dimension"])
    basis = make_basis(domain, configuration["degree"], index_set=configuration["index_set"])
    return Result({"num_terms": basis.num_terms})
