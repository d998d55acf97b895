"""The network of a method: its layers, activation and what it sees of the inputs."""

import dataclasses

from pann.methods.options import (
    Choice,
    Flag,
    Instance,
    Real,
    Whole,
    Widths,
    check_options,
    documented,
    option,
)
from pann.model.architecture import Architecture, layer_widths
from pann.network import (
    Activation,
    EmbeddingOptions,
    Initialization,
    RandomFourier,
    activation_named,
)
from pann.network.activations import ACTIVATIONS

FIT = ("fit",)


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class MLP:
    """A network of hidden layers; its last layer's units are the psi_j of the model."""

    width: int | tuple[int, ...] | None = option(
        None,
        "units of each hidden layer: a number, or one for each; by default 32 in three layers for "
        "data, 24 in two for equations, 50 in three in gradient training of equations",
        Widths(),
    )
    depth: int | None = option(None, "number of hidden layers, where width is a number", Whole(1))
    activation: str | Activation | None = option(
        None,
        "activation; by default tanh, and for equations tanh or sin, whichever does better in a "
        "few steps",
        Choice(tuple(ACTIVATIONS), (Activation,)),
    )
    gated: bool = option(
        False, "gated layers (the modified MLP of Wang, Teng and Perdikaris 2021)", Flag()
    )
    embedding: EmbeddingOptions | None = option(
        None,
        "what the network sees of its inputs; a number is so many random Fourier features",
        Instance((EmbeddingOptions,), RandomFourier),
    )
    dropout: float = option(0.0, "rate of dropout in [0, 1)", Real(least=0.0, below=1.0), verbs=FIT)
    initialization: Initialization | None = option(
        None, "how weights are drawn", Instance((Initialization,)), verbs=FIT
    )
    bias: bool | None = option(
        None, "an output bias; by default where there is no polynomial", Flag(), verbs=FIT
    )

    def __post_init__(self) -> None:
        check_options(self)
        if isinstance(self.width, tuple) and self.depth is not None:
            raise ValueError(
                f"depth={self.depth} has no effect with a width for each hidden layer, "
                f"{self.width}; leave depth out"
            )
        if self.width == 0:
            raise ValueError("width=0 is no network; use pann.Polynomial(...), or network=None")

    def architecture(
        self, width: int, depth: int, activation: str | Activation, *, bias: bool, precision: str
    ) -> Architecture:
        """The network with these choices where it has none of its own; without a width, none."""
        return Architecture(
            widths=layer_widths(self.width or width, self.depth or depth),
            activation=activation_named(self.activation or activation),
            embedding=self.embedding,
            dropout=self.dropout,
            initialization=self.initialization,
            bias=bias if self.bias is None else self.bias,
            precision=precision,
            gated=self.gated,
        )
