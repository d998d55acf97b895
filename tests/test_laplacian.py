"""u.laplacian: the sum of second derivatives, and one channel where gradients train a network."""

import jax
import numpy as np
import pytest
from oracles import random_parameters

from pann.basis import make_basis
from pann.domain import Box
from pann.pde import Dirichlet, Initial, Problem
from pann.pde.checks import checked
from pann.pde.collocation import make_block
from pann.pde.evaluation import block_channels
from pann.pde.operators import with_laplacian
from pann.pde.placing import place_inside
from pann.points import uniform
from pann.problems import PROBLEMS


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", ["gray_scott", "poisson", "allen_cahn", "darcy"])
def test_the_laplacian_is_one_channel_of_gradient_training(name):
    problem = PROBLEMS[name](faithful=True) if name == "gray_scott" else PROBLEMS[name]()
    points = uniform(problem.domain, 30, seed=0).coordinates
    placed = place_inside(problem, points, problem.asked.orders)
    merged = with_laplacian(placed)
    assert len(merged.orders) == len(placed.orders) - 1
    basis = make_basis(problem.domain, 3)
    blocks = [make_block(each, problem, basis, "float64") for each in (placed, merged)]
    parameters = random_parameters(
        0,
        dimension=problem.domain.dimension,
        num_terms=basis.num_terms,
        num_outputs=len(problem.fields),
    )
    found = []
    for block in blocks:
        of_network = block_channels(block, parameters, problem.domain)
        found.append(block.residual(block.polynomial_channels(parameters.b) + of_network, {}))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-11 * np.abs(found[0]).max())


def test_second_derivatives_asked_for_alone_keep_their_channels():
    domain = Box(x=(-1, 1), y=(-1, 1))
    residual = lambda u: u.laplacian + u.xx
    problem = Problem(domain, residual, [Dirichlet(domain.boundary, 0.0)])
    placed = place_inside(problem, np.zeros((3, 2)), problem.asked.orders)
    assert with_laplacian(placed) is placed


def test_the_laplacian_leaves_time_out():
    domain = Box(x=(-1, 1), t=(0, 1), time="t")
    problem = Problem(domain, lambda u: u.t - u.laplacian, [Initial(0.0)])
    assert checked(problem).asked.orders == ((0, 1), (2, 0))
