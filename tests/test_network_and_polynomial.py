"""A network next to the polynomial: slopes by the basis, alone where the polynomial hinders."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import count_compilations

import pann
from pann import Box, Problem
from pann.basis import make_basis
from pann.solvers.network import starts, with_polynomial_or_alone
from pann.solvers.setup import Setup

LINE = Box(x=(-1, 1))


def layer(slope):
    return Problem.manufactured(
        LINE,
        lambda u: 1e-2 * u.xx - u.value,
        lambda x: jnp.tanh(slope * (x - 0.3)) + jnp.sin(3 * x),
    )


@pytest.mark.parametrize("degree", [0, 8, 40, 128])
def test_slopes_are_those_that_the_basis_lacks(degree):
    """The best polynomial of degree n misses tanh(s x) by about exp(-pi n / 2 s)."""
    gentle, steep, steeper, *_ = (start.scales for start in starts(make_basis(LINE, degree)))
    assert gentle[0] < steep[1] < steeper[1]
    if degree:
        missed = np.exp(-np.pi * degree / (2 * np.array([gentle[1], steep[1], steeper[1]])))
        assert np.all(missed > 1e-3)
        assert missed[-1] > 0.5


def test_steeper_units_for_higher_degrees():
    tops = [starts(make_basis(LINE, degree))[1].scales[1] for degree in (8, 40, 128)]
    assert tops == sorted(tops)
    assert tops[-1] == 128


@pytest.fixture(scope="module")
def before():
    return pann.solve(layer(5.0), pann.Polynomial(degree=3))


@pytest.mark.parametrize(
    "both, alone, chosen, trained",
    [(1e-3, 1e-9, 1e-3, 1), (0.5, 0.2, 0.2, 2), (0.5, 0.9, 0.5, 2)],
)
def test_a_network_by_itself_is_tried_where_it_was_of_little_help(
    before, both, alone, chosen, trained
):
    """Enough is 0.01."""
    problem, seen = before.problem, []

    def train(setup, start):
        seen.append(start.model.basis.num_terms)
        residual = both if len(seen) == 1 else alone
        return dataclasses.replace(
            start, report=dataclasses.replace(start.report, residual=residual)
        )

    setup = Setup(problem)
    with jax.enable_x64(True):
        found = with_polynomial_or_alone(setup, before, 0.01, train)
    assert found.residual == chosen
    assert seen == [4, 1][:trained]


@pytest.mark.slow
def test_a_network_resolves_the_layer_that_the_polynomial_does_not():
    problem = layer(40.0)
    both = pann.solve(
        problem, pann.Hybrid(degree=24, network=pann.MLP(width=5, activation="tanh"), iterations=25)
    )
    polynomial = pann.solve(problem, pann.Polynomial(degree=24))
    assert both.model.num_units == 5
    assert both.rel_l2 < 0.1 * polynomial.rel_l2
    assert both.residual < polynomial.residual


def test_a_second_solution_of_the_same_problem_compiles_nothing():
    problem = dataclasses.replace(layer(2.0), exact=None)
    pann.solve(problem, pann.Polynomial(degree=12))
    with count_compilations() as compiled:
        pann.solve(problem, pann.Polynomial(degree=12))
    assert compiled == []
