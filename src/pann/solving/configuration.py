"""What determines a solution, in words: work that was interrupted goes on only where all agree."""

import hashlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pann.architecture import Architecture
from pann.basis import Basis
from pann.pde.blocks import make_block
from pann.solution import Solution
from pann.solving.setup import Setup


def configuration(
    setup: Setup,
    ladder: Sequence[Basis],
    architectures: Sequence[Architecture],
    start_from: Solution | None,
    **options: object,
) -> dict[str, str]:
    """Problem, bases, networks, options and points by name, the plainest first."""
    problem, basis = setup.problem, ladder[0]
    placed = setup.placed(basis)
    plain = {
        "problem": problem.name,
        "domain": str(problem.domain),
        "seed": str(setup.seed),
        "precision": architectures[0].precision if architectures else "float64",
        "degree": ", ".join(str(int(np.max(each.degrees, initial=0))) for each in ladder),
        "terms": ", ".join(str(each.num_terms) for each in ladder),
        "network": "; ".join(str(each) for each in architectures),
    }
    given = {name: str(value) for name, value in options.items()}
    # Last what follows from the rest, or has no name.
    derived = {
        "start": "nothing" if start_from is None else _hash(*jax.tree.leaves(start_from.model)),
        "points": f"{len(placed[0].points):,} ({_hash(placed[0].points)})",
        "condition points": ", ".join(
            f"{each.name} {len(each.points):,} ({_hash(each.points)})" for each in placed[1:]
        ),
        "basis": _hash(*(each.indices for each in ladder)),
        "equation and conditions": _measured(setup, basis),
    }
    return plain | given | derived


def _hash(*arrays: object) -> str:
    """A short name for the bits of some arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(np.asarray(array)).tobytes())
    return digest.hexdigest()[:12]


def _measured(setup: Setup, basis: Basis) -> str:
    """Functions have no name to compare: the size of every residual at one arbitrary state."""
    problem = setup.problem
    draws = np.random.default_rng(0).normal(size=(basis.num_terms, len(problem.fields)))
    b = jnp.asarray(draws / (1 + np.asarray(basis.degrees, float)[:, None]) ** 2)
    parameters = {name: jnp.asarray(value + 0.1) for name, value in problem.parameters.items()}
    blocks = [
        setup.fresh(basis),
        *(make_block(each, problem, basis, "float64") for each in setup.placed(basis)[1:]),
    ]
    sizes = [
        jnp.linalg.norm(block.residual(block.polynomial_channels(b), parameters))
        for block in blocks
    ]
    return ", ".join(f"{float(size):.8g}" for size in sizes)
