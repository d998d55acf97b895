"""The neural half: activations, embeddings, initializations, networks. It knows no polynomials."""

from pann.network.activations import Activation, Power, RePU, activation_named
from pann.network.embeddings import (
    AxisEmbedding,
    AxisUnits,
    CircleEmbedding,
    Circles,
    Embedding,
    EmbeddingOptions,
    PeriodicEmbedding,
    PeriodicFeatures,
    PolynomialEmbedding,
    PolynomialFeatures,
    RandomFourier,
    RandomFourierFeatures,
)
from pann.network.initialization import Complementary, Glorot, Initialization, draw_slopes
from pann.network.level_sets import LevelSets
from pann.network.mlp import MLP, ModifiedMLP, Network, check_gated_widths, draw_network
from pann.network.spline_products import ProductUnits

__all__ = [
    "MLP",
    "Activation",
    "AxisEmbedding",
    "AxisUnits",
    "CircleEmbedding",
    "Circles",
    "Complementary",
    "Embedding",
    "EmbeddingOptions",
    "Glorot",
    "Initialization",
    "LevelSets",
    "ModifiedMLP",
    "Network",
    "PeriodicEmbedding",
    "PeriodicFeatures",
    "PolynomialEmbedding",
    "PolynomialFeatures",
    "Power",
    "ProductUnits",
    "RandomFourier",
    "RandomFourierFeatures",
    "RePU",
    "activation_named",
    "check_gated_widths",
    "draw_network",
    "draw_slopes",
]
