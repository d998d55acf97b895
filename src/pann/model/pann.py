"""The model u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x) (paper, eq. 3.1): its two halves.

Compiled programs take `Parameters`: arrays alone, so that one program serves every basis of the
same size. Users have a `PANN`: the parameters with the domain and the basis that give them meaning;
its methods take and return NumPy arrays.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from pann.basis import AnyBasis, Basis, ElementBasis, EvolvingBasis, WholeBasis
from pann.domain import Box
from pann.model.extrapolation import clipped, margins
from pann.network import LevelSets, Network, ProductUnits, RandomFourierFeatures
from pann.points import checked_coordinates, from_array, where_inside
from pann.runtime.compile import compiled

BLOCK = 8192  # points predicted at a time
MAX_ROWS = 65_536  # rows whose features a compiled program holds at once
Points = Float[Array, "points d"]
Table = Float[Array, "points terms"]
Outputs = Float[Array, "points outputs"]
Coordinates = Float[np.ndarray, "points d"]


class Parameters(eqx.Module):
    """Network, coefficients, and which of them are kept; pruned ones stay as masked zeros.

    `overlap` is the polynomial content of the network, nonzero only under the exact constraint:
    it moves sum_k overlap_k phi_k from the network's half to the polynomial's; u stays the same.
    `products` are further units of the network's half, the last ones in a and keep_a.
    `equation` has the unknown numbers of an equation, which are trained with the rest; `balance`
    the weights of the terms of its loss where they are not fixed; `penalties` those of the
    constraints where each trial has its own.
    """

    network: Network | LevelSets | None
    a: Float[Array, "*trials width outputs"]
    b: Float[Array, "*trials terms outputs"]
    bias: Float[Array, "*trials outputs"] | None
    keep_a: Bool[Array, "*trials width"]
    keep_b: Bool[Array, "*trials terms"]
    overlap: Float[Array, "*trials terms outputs"]
    equation: dict[str, Float[Array, "*trials"]] = eqx.field(default_factory=dict)
    balance: dict[str, Float[Array, "*trials"]] = eqx.field(default_factory=dict)
    products: ProductUnits | None = None
    penalties: dict[str, Float[Array, "*trials"]] = eqx.field(default_factory=dict)

    def features(self, x: Points, key: PRNGKeyArray | None = None) -> Float[Array, "points width"]:
        """The network's basis Psi at the points, without the pruned units."""
        if self.network is None:
            psi = jnp.zeros((x.shape[0], 0), self.b.dtype)
        elif key is None or self.network.dropout == 0:
            psi = jax.vmap(self.network.features)(x)
        else:
            psi = jax.vmap(self.network.features)(x, jax.random.split(key, x.shape[0]))
        if self.products is not None:
            psi = jnp.concatenate([psi, jax.vmap(self.products.features)(x)], axis=1)
        return psi * self.keep_a

    def network_output(self, features: Float[Array, "points width"]) -> Outputs:
        output = features @ self.a
        return output if self.bias is None else output + self.bias

    def polynomial_output(self, table: Table) -> Outputs:
        return table @ self.kept_b

    def settled_output(self, x: Points, table: Table) -> Outputs:
        """Without the layers of the network: the output before they are trained."""
        output = self.polynomial_output(table)
        if self.products is None:
            return output
        first = self.a.shape[0] - self.products.width
        return output + jax.vmap(self.products.features)(x) @ self.kept_a[first:]

    @property
    def kept_b(self) -> Float[Array, "terms outputs"]:
        return self.b * self.keep_b[:, None]

    @property
    def kept_a(self) -> Float[Array, "width outputs"]:
        return self.a * self.keep_a[:, None]

    def output(self, x: Points, table: Table) -> Outputs:
        if x.shape[0] <= MAX_ROWS:
            return self.network_output(self.features(x)) + self.polynomial_output(table)
        # Many rows: their features together would not fit in memory.
        one = lambda row: self.output(row[0][None], row[1][None])[0]
        return jax.lax.map(one, (x, table), batch_size=MAX_ROWS)


def initial_parameters(
    network: Network | LevelSets | None,
    num_terms: int,
    num_outputs: int,
    *,
    bias: bool,
    key: PRNGKeyArray,
    dtype: str,
) -> Parameters:
    """Glorot-normal a, zero b: the start of the paper's training."""
    width = 0 if network is None else network.width
    a = jnp.sqrt(2.0 / (width + num_outputs)) * jax.random.normal(key, (width, num_outputs), dtype)
    return Parameters(
        network=network,
        a=a,
        b=jnp.zeros((num_terms, num_outputs), dtype),
        bias=jnp.zeros(num_outputs, dtype) if bias else None,
        keep_a=jnp.ones(width, bool),
        keep_b=jnp.ones(num_terms, bool),
        overlap=jnp.zeros((num_terms, num_outputs), dtype),
    )


def trainable(parameters: Parameters) -> Parameters:
    """A tree of booleans: which leaves training may move (not masks, frequencies or products)."""

    def is_fixed(node: object) -> bool:
        return isinstance(node, RandomFourierFeatures | ProductUnits)

    spec = jax.tree.map(
        lambda node: (
            jax.tree.map(lambda _: False, node) if is_fixed(node) else eqx.is_inexact_array(node)
        ),
        parameters,
        is_leaf=is_fixed,
    )
    fixed = [dict.fromkeys(each, False) for each in (parameters.balance, parameters.penalties)]
    return eqx.tree_at(
        lambda tree: (tree.overlap, tree.balance, tree.penalties), spec, (False, *fixed)
    )


class Parts(NamedTuple):
    """The two halves of a prediction; their sum is the prediction."""

    network: Float[np.ndarray, "points *outputs"]
    polynomial: Float[np.ndarray, "points *outputs"]


class Term(NamedTuple):
    """A basis function of the polynomial half with its coefficient, one for each output."""

    name: str
    coefficients: Float[np.ndarray, " outputs"]


@dataclasses.dataclass(frozen=True)
class PANN:
    """A trained model: call it on points, look at its parts, rank its terms, prune it.

    `relative_error` is that of a fit, relative to the deviation of its values: it is then
    extrapolated a little outside of the domain, as far as `pann.model.extrapolation` says, and
    clipped with a warning beyond. Without it, None, points outside are refused.
    """

    domain: Box
    basis: AnyBasis
    parameters: Parameters
    precision: str = "float64"
    num_outputs: int | None = None
    relative_error: float | None = None

    def __call__(self, points: npt.ArrayLike) -> Float[np.ndarray, "points *outputs"]:
        """u at points of shape (N, d): one value per point, or a row for several outputs."""
        network, polynomial = self.parts(points)
        return network + polynomial

    def parts(self, points: npt.ArrayLike) -> Parts:
        """The network's and the polynomial's half of the prediction at the points.

        They are NaN at points outside of a shape.
        """
        coordinates, sizes = self._coordinates(points), (2, self.num_outputs or 1)
        halves = where_inside(self.domain, coordinates, self._halves, sizes, self.precision)
        # One value per point where the model was fitted to one.
        return Parts(*(halves[:, :, 0] if self.num_outputs is None else halves))

    def _halves(self, coordinates: Coordinates) -> Float[np.ndarray, "2 points outputs"]:
        if self.parameters.a.shape[0] == 0:
            return self._polynomial_alone(coordinates)
        blocks = [
            np.stack(self._block(coordinates[start : start + BLOCK]))
            for start in range(0, len(coordinates), BLOCK)
        ]
        return np.concatenate(blocks, axis=1)

    def _coordinates(self, points: npt.ArrayLike) -> Coordinates:
        if self.domain.shape is not None:
            return checked_coordinates(self.domain, points)
        if self.relative_error is None:
            return from_array(self.domain, points).coordinates
        coordinates = checked_coordinates(self.domain, points)
        return clipped(self.domain, coordinates, self.margins, self.relative_error)

    @property
    def margins(self) -> Float[np.ndarray, " d"]:
        """For each axis, the fraction of its width by which predictions are extrapolated."""
        if self.relative_error is None or not isinstance(self.basis, Basis):
            return np.zeros(self.domain.dimension)
        return margins(np.max(self.basis.indices, axis=0, initial=0), self.relative_error)

    def _polynomial_alone(self, coordinates: Coordinates) -> Float[np.ndarray, "2 points outputs"]:
        """Without a network nothing has to be compiled."""
        p = self.parameters
        kept = np.asarray(p.keep_b)[:, None]
        b, overlap = np.asarray(p.b, float) * kept, np.asarray(p.overlap, float) * kept
        polynomial = self.basis.evaluate(coordinates, b + overlap).astype(self.precision)
        network = np.zeros_like(polynomial)
        if np.any(overlap):
            network -= self.basis.evaluate(coordinates, overlap).astype(self.precision)
        if p.bias is not None:
            network += np.asarray(p.bias)
        return np.stack([network, polynomial])

    def _block(self, coordinates: Coordinates) -> tuple[np.ndarray, np.ndarray]:
        # Padded to few sizes, so that predictions at any number of points share programs.
        count = len(coordinates)
        size = BLOCK if count > BLOCK // 2 else max(64, 1 << (count - 1).bit_length())
        padded = np.pad(coordinates, ((0, size - count), (0, 0)), mode="edge")
        table = self.basis.table(padded)
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            dtype = self.precision
            network, polynomial = _halves(
                self.parameters,
                jnp.asarray(self.domain.to_reference(padded), dtype),
                jnp.asarray(table, dtype),
            )
            return np.asarray(network)[:count], np.asarray(polynomial)[:count]

    @property
    def product_basis(self) -> WholeBasis:
        """The basis, where it is one over the whole domain."""
        if not isinstance(self.basis, ElementBasis | EvolvingBasis):
            return self.basis
        raise ValueError(
            "this model lives on elements, or in windows on a shape, which nothing else goes on "
            "from; solve the problem by the same method with other options"
        )

    @property
    def num_terms(self) -> int:
        """Polynomial terms that are not pruned."""
        return int(np.sum(np.asarray(self.parameters.keep_b)))

    @property
    def num_units(self) -> int:
        """Units of the last hidden layer that are not pruned."""
        return int(np.sum(np.asarray(self.parameters.keep_a))) - self.num_products

    @property
    def num_products(self) -> int:
        """Products of functions of one coordinate that are not pruned."""
        products = self.parameters.products
        if products is None:
            return 0
        return int(np.sum(np.asarray(self.parameters.keep_a)[-products.width :]))

    def terms(self) -> list[Term]:
        """The terms of the polynomial half, the largest coefficient first."""
        coefficients = np.asarray(self.parameters.b + self.parameters.overlap)
        kept = np.asarray(self.parameters.keep_b)
        names = self.basis.term_names()
        order = np.argsort(-np.max(np.abs(coefficients), axis=1, initial=0.0), kind="stable")
        return [Term(names[k], coefficients[k]) for k in order if kept[k]]

    def compact(self) -> "PANN":
        """The model without its pruned units and terms; it predicts the same."""
        p = self.parameters
        keep_a, keep_b = np.flatnonzero(p.keep_a), np.flatnonzero(p.keep_b)
        first_product = 0 if p.network is None else p.network.width
        units, others = keep_a[keep_a < first_product], keep_a[keep_a >= first_product]
        network = p.network.select(units) if p.network is not None and len(units) else None
        products = None
        if p.products is not None and len(others):
            products = p.products.select(others - first_product)
        # NumPy selects what is kept: JAX would compile a program for every number of terms.
        with jax.enable_x64(True):
            parameters = Parameters(
                network=network,
                a=jax.device_put(np.asarray(p.a)[keep_a]),
                b=jax.device_put(np.asarray(p.b)[keep_b]),
                bias=p.bias,
                keep_a=jax.device_put(np.ones(len(keep_a), bool)),
                keep_b=jax.device_put(np.ones(len(keep_b), bool)),
                overlap=jax.device_put(np.asarray(p.overlap)[keep_b]),
                products=products,
            )
        return dataclasses.replace(self, basis=self.basis.subset(keep_b), parameters=parameters)

    def __repr__(self) -> str:
        p = self.parameters
        network = "no network"
        if p.network is not None:
            depth = len(p.network.weights)
            network = f"{depth} hidden layers, {self.num_units} last units, {p.network.activation}"
        if self.num_products:
            network += f"; products of splines: {self.num_products}"
        axes = ", ".join(self.domain.names)
        return f"PANN({axes}: {network}; {self.num_terms} polynomial terms; {self.precision})"


@compiled
def _halves(parameters: Parameters, x: Points, table: Table) -> tuple[Outputs, Outputs]:
    shared = table @ (parameters.overlap * parameters.keep_b[:, None])
    network = parameters.network_output(parameters.features(x)) - shared
    return network, parameters.polynomial_output(table) + shared
