"""The neural half: activations, embeddings, initializations, networks. Knows no polynomials."""

from pann.network.activations import Activation, RePU, activation_named
from pann.network.embeddings import Embedding, PeriodicEmbedding, RandomFourierFeatures
from pann.network.initialization import Complementary, Glorot, Initialization
from pann.network.mlp import MLP

__all__ = [
    "MLP",
    "Activation",
    "Complementary",
    "Embedding",
    "Glorot",
    "Initialization",
    "PeriodicEmbedding",
    "RandomFourierFeatures",
    "RePU",
    "activation_named",
]
