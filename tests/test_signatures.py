"""What is wrong in a call is refused by the checks that all of pann is imported with."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jaxtyping
import numpy as np
import pytest
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float
from signatures import checked

import pann
from pann.basis import Legendre

if TYPE_CHECKING:
    from nowhere import OnlyForTypeCheckers

check = checked(typechecker=beartype)


@check
def product(
    matrix: Float[np.ndarray, "rows columns"], vector: Float[np.ndarray, " columns"]
) -> Float[np.ndarray, " rows"]:
    return matrix @ doubled(vector)[: len(vector)]


@check
def doubled(columns: Float[np.ndarray, " columns"]) -> Float[np.ndarray, " rows"]:
    """The sizes of this call are none of its caller's."""
    return np.concatenate([columns, columns])


@check
def same_size(vector: "Float[np.ndarray, ' n'] | None") -> "Float[np.ndarray, ' n'] | None":
    return vector if vector is None or vector[0] == 0 else np.concatenate([vector, vector])


@check
def length(word: str) -> int:
    return len(word) or None


@check
def labeled(number: int, label: "OnlyForTypeCheckers | None") -> "tuple[OnlyForTypeCheckers, int]":
    return label, number


@check
def up_to(last: int) -> Iterator[int]:
    yield from range(last)


@check
@dataclasses.dataclass
class Line:
    points: Float[np.ndarray, " n"]
    values: Float[np.ndarray, " n"]

    @check
    @property
    def first(self) -> float:
        return self.values[0]

    @check
    @classmethod
    def through(cls, value: float) -> "Line":
        return cls(np.zeros(1), np.array([value]))


def test_what_is_right_passes():
    np.testing.assert_array_equal(product(np.eye(3), np.ones(3)), np.ones(3))
    assert same_size(None) is None
    assert length(word="four") == 4
    assert list(up_to(3)) == [0, 1, 2]
    assert Line.through(2.0).first == 2.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: product(np.eye(3), np.ones(2)),
        lambda: product(np.eye(3)[None], np.ones(3)),
        lambda: product(np.eye(3), np.ones(3, int)),
        lambda: same_size(np.ones(3)),
        lambda: length(3),
        lambda: length(""),
        lambda: up_to("3"),
        lambda: Line(np.ones(3), np.ones(2)),
        lambda: Line.through("2"),
        lambda: Line(np.ones(1), np.array(["word"])).first,
        lambda: pann.Box(x=(0, 1)).from_reference(np.ones(3)),
        lambda: Legendre().table(np.ones((3, 1)), 3),
    ],
)
def test_what_is_wrong_is_refused(wrong):
    with pytest.raises((BeartypeCallHintViolation, jaxtyping.TypeCheckError)):
        wrong()


def test_functions_within_functions_are_each_checked_as_themselves():
    def power(hint, exponent):
        def raised(x: hint) -> hint:
            return x**exponent

        return check(raised)

    square, cube, root = power(int, 2), power(int, 3), power(float, 0.5)
    assert (square(2), cube(2), root(4.0)) == (4, 8, 2.0)
    for function, wrong in [(square, 2.0), (cube, 2.0), (root, "4")]:
        with pytest.raises(BeartypeCallHintViolation):
            function(wrong)


def test_functions_within_functions_without_anything_to_check_are_themselves_too():
    def returning(value):
        @check
        def it(*_: Any) -> Any:
            return value

        return it

    one, two = returning(1), returning(2)
    assert (one(), two(), one()) == (1, 2, 1)


def test_hints_that_only_type_checkers_know_are_not_read():
    assert labeled(3, "three") == ("three", 3)
    with pytest.raises(BeartypeCallHintViolation):
        labeled("3", "three")


def test_nothing_is_remembered_of_a_call_that_failed():
    for size in (3, 4):
        with pytest.raises(BeartypeCallHintViolation):
            product(np.eye(size), np.ones(2))
        product(np.eye(size), np.ones(size))


def test_the_checks_can_be_left_out():
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        assert length("") is None
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
    with pytest.raises(BeartypeCallHintViolation):
        length("")
