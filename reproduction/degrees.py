"""Which total degree the paper's polynomial has, by experiment, constant c and number of points N.

    l = factor * (ceil(c N / divisor) + 8)

for all but the high-dimensional functions and the housing data, whose degree is fixed. The text
gives the rule of P10 P10 and that of the non-smooth function (paper, sections 4.1 and 4.2); the
others follow from the tables of degrees in its appendix, which these rules give without exception.
"""

import dataclasses
import difflib
import math

from reproduction.published import shown_name

OFFSET = 8
# No rule: the text gives 8, and nothing for the housing data, where 2 is this project's reading.
FIXED = {"high_dimensional": 8, "housing": 2}


@dataclasses.dataclass(frozen=True)
class DegreeRule:
    """The two constants above, and the number of variables of the polynomial."""

    factor: int = 1
    divisor: int = 1
    variables: int = 2

    def degree(self, c: float, num_points: int) -> int:
        return self.factor * (math.ceil(c * num_points / self.divisor) + OFFSET)

    def num_terms(self, degree: int) -> int:
        """All terms of total degree `degree` or less: C(degree + variables, variables)."""
        return math.comb(degree + self.variables, self.variables)


# In time the polynomial is constant: KdV and KS have x alone, Gray-Scott x and y.
RULES = {
    "reproduction": DegreeRule(factor=2),
    "non_smooth": DegreeRule(),
    "poisson": DegreeRule(),
    "allen_cahn": DegreeRule(),
    "darcy": DegreeRule(),
    "kdv": DegreeRule(variables=1),
    "ks": DegreeRule(variables=1),
    "gray_scott": DegreeRule(divisor=32),
}


def degree_of(experiment: str, c: float, num_points: int) -> int:
    """The paper's total degree: degree_of("poisson", 0.003, 4096) is 21."""
    return _rule(experiment).degree(c, num_points)


def terms_of(experiment: str, degree: int) -> int:
    """How many terms a polynomial of that degree has there: terms_of("kdv", 12) is 13."""
    return _rule(experiment).num_terms(degree)


def _rule(experiment: str) -> DegreeRule:
    experiment = shown_name(experiment)
    if experiment in RULES:
        return RULES[experiment]
    if experiment in FIXED:
        raise ValueError(
            f"'{experiment}' has no rule for its degree, which is {FIXED[experiment]}; "
            "see reproduction.degrees.FIXED"
        )
    close = difflib.get_close_matches(experiment, RULES, 1)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise ValueError(
        f"there is no rule for the degree in '{experiment}'{meant}; there are rules for "
        f"{', '.join(RULES)}"
    )
