"""The paper's published figures: `load("poisson")` is its table of Poisson's equation.

A row of a frame is one cell of the printed table: the columns that say which, then `mean` and
`deviation` of the relative l2 error over the trials, then `seconds`. Figures are kept as printed,
misprints too; `doubt` says why one should not be trusted, after the name of the column that it is
about ("deviation: ..."), several reasons parted by "; ". A cell printed without a figure has none
here, and its reason there.

In the five tables of equations `model` is PL, PINN or PANN, and `base` what a network is or how it
is trained: plain, rff, gradnorm, modmlp or causal. `c_printed` is the row's label, and `c` what it
is read as: the tables of KdV and KS label the same rows in several ways, and the table of degrees
decides. Seconds are printed for the largest number of points only.
"""

import dataclasses
import difflib
from importlib import resources
from typing import Any, Literal

Frame = Any  # pandas.DataFrame; pandas takes half a second to import

INTEGERS = {"width", "depth", "num_points", "dimension", "degree", "num_terms"}
FLOATS = {
    "c",
    "c_printed",
    "alpha",
    "constraint_weight",
    "mean",
    "deviation",
    "seconds",
    "seconds_deviation",
    "percent",
}
BOOLEANS = {"preconditioner"}


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper, its LaTeX label, and the CSV file that has its figures.

    Two exhibits may have the same data: the bars for Poisson's equation are some of its table.
    Without data the paper prints no numbers, or only settings.
    """

    name: str
    kind: Literal["table", "figure", "text"]
    label: str
    shows: str
    data: str | None = None


# In the paper's order.
EXHIBITS = (
    Exhibit(
        "basis_sizes", "figure", "fig:basisgen", "terms by index set and dimension", "basis_sizes"
    ),
    Exhibit("architecture", "figure", "fig:architecture", "the network beside the polynomial"),
    Exhibit("landscapes", "figure", "fig:poisson-losslandscapes", "the loss near a PANN, a PINN"),
    Exhibit("constraints", "table", "table:orthoconstraints", "the eight weak constraints"),
    Exhibit("methods", "table", "table:baselines", "the methods compared, in words"),
    Exhibit(
        "reproduction",
        "figure",
        "fig:exact_exp_convergence_errors",
        "P10 P10: error and time by number of points",
    ),
    Exhibit(
        "constraint_bars",
        "figure",
        "fig:exact_exp_orth_comparison",
        "P10 P10: error and time by constraint",
    ),
    Exhibit(
        "pruning",
        "table",
        "tab:exact_exp_orth_comparison",
        "P10 P10: percentage of pruned coefficients by constraint",
        "pruning",
    ),
    Exhibit(
        "non_smooth",
        "figure",
        "fig:diff_exp_convergence_errors",
        "the non-smooth function: error and time by number of points",
    ),
    Exhibit(
        "alpha",
        "table",
        "tab:diff_alpha_sensitivity",
        "the non-smooth family: error by exponent alpha",
        "alpha",
    ),
    Exhibit(
        "frequency_parts",
        "figure",
        "fig:predicted_solutions_test4",
        "an oscillating function: prediction, its parts, their errors",
    ),
    Exhibit(
        "frequency_spectra",
        "figure",
        "fig:predicted_solutions_fft_test4",
        "the same in Fourier space",
    ),
    Exhibit(
        "high_dimensional",
        "figure",
        "fig:highdim_exp_convergence_errors",
        "a product of sines: error and time by dimension",
    ),
    Exhibit(
        "housing",
        "table",
        "tab:realworld_baseline_comparisons",
        "California housing: error by constraint, with and without K",
        "housing",
    ),
    Exhibit("poisson_bars", "figure", "fig:poisson", "Poisson: some errors at N=4096", "poisson"),
    Exhibit(
        "equal_cost",
        "figure",
        "fig:poisson-equalcost",
        "Poisson: losses, error and time during training at equal cost",
    ),
    Exhibit(
        "allen_cahn_bars",
        "figure",
        "fig:allencahn",
        "Allen-Cahn: some errors at N=4096",
        "allen_cahn",
    ),
    Exhibit("kdv_bars", "figure", "fig:kdv", "KdV: some errors at N=16384", "kdv"),
    Exhibit("ks_bars", "figure", "fig:ks", "KS: some errors at N=16384", "ks"),
    Exhibit(
        "grey_scott_bars",
        "figure",
        "fig:gs",
        "Grey-Scott: some errors at N=131072",
        "grey_scott",
    ),
    Exhibit("darcy", "text", "sec:limitations", "Darcy flow in five strips: errors", "darcy"),
    Exhibit("notation", "table", "tab:notation", "the paper's symbols"),
    Exhibit(
        "settings_poisson_allen_cahn",
        "table",
        "tab:poisson_ac_impl_details",
        "Poisson, Allen-Cahn: settings",
    ),
    Exhibit("settings_kdv_ks", "table", "tab:kdv_ks_impl_details", "KdV, KS: settings"),
    Exhibit("settings_grey_scott", "table", "tab:gs_impl_details", "Grey-Scott: settings"),
    Exhibit(
        "degrees_reproduction",
        "table",
        "tab:exact_totaldegrees",
        "P10 P10: degrees and terms",
        "degrees_reproduction",
    ),
    Exhibit(
        "degrees_non_smooth",
        "table",
        "tab:diff_totaldegrees",
        "the non-smooth function: degrees and terms",
        "degrees_non_smooth",
    ),
    Exhibit(
        "degrees_poisson_allen_cahn",
        "table",
        "tab:poisson_ac_totaldegrees",
        "Poisson, Allen-Cahn: degrees and terms",
        "degrees_poisson_allen_cahn",
    ),
    Exhibit(
        "degrees_kdv_ks",
        "table",
        "tab:kdv_ks_totaldegrees",
        "KdV, KS: degrees and terms",
        "degrees_kdv_ks",
    ),
    Exhibit(
        "degrees_grey_scott",
        "table",
        "tab:gs_exact_totaldegrees",
        "Grey-Scott: degrees and terms",
        "degrees_grey_scott",
    ),
    Exhibit(
        "conventional_reproduction",
        "table",
        "tab:test2_baseline_comparisons",
        "P10 P10: conventional regressors",
        "conventional_reproduction",
    ),
    Exhibit(
        "conventional_non_smooth",
        "table",
        "tab:test4_baseline_comparisons",
        "the non-smooth function: conventional regressors",
        "conventional_non_smooth",
    ),
    Exhibit(
        "conventional_high_dimensional",
        "table",
        "tab:highdim_baseline_comparisons",
        "a product of sines: conventional regressors",
        "conventional_high_dimensional",
    ),
    Exhibit(
        "conventional_housing",
        "table",
        "tab:realworld_baseline_comparisons_full",
        "California housing: conventional regressors",
        "conventional_housing",
    ),
    Exhibit(
        "poisson", "table", "tab:appendix-poisson-errorstd", "Poisson: errors, seconds", "poisson"
    ),
    Exhibit(
        "allen_cahn",
        "table",
        "tab:appendix-allencahn-errorstd",
        "Allen-Cahn: errors, seconds",
        "allen_cahn",
    ),
    Exhibit("kdv", "table", "tab:appendix-kdv-errorstd", "KdV: errors, seconds", "kdv"),
    Exhibit("ks", "table", "tab:appendix-kuramoto-errorstd", "KS: errors, seconds", "ks"),
    Exhibit(
        "grey_scott",
        "table",
        "tab:appendix-greyscott-errorstd",
        "Grey-Scott: errors of u and v, seconds",
        "grey_scott",
    ),
)


def tables() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(dict.fromkeys(each.data for each in EXHIBITS if each.data is not None))


def load(name: str) -> Frame:
    """The published figures of that name, a typed `pandas.DataFrame`; texts are never missing."""
    import pandas

    key = name.lower().replace("-", "_")
    if key not in tables():
        close = difflib.get_close_matches(key, tables(), 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"there is no published table '{name}'{meant}; there are {', '.join(tables())}"
        )
    # Every figure is read with all its digits; an empty text stays empty.
    numbers = INTEGERS | FLOATS
    with (
        resources.files("reproduction")
        .joinpath("data", f"{key}.csv")
        .open(encoding="utf-8") as file
    ):
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False)
    for column in frame.columns:
        if column in numbers:
            frame[column] = pandas.to_numeric(frame[column]).astype(
                "Int64" if column in INTEGERS else "float64"
            )
        elif column in BOOLEANS:
            frame[column] = frame[column] == "True"
    return frame


def is_missing(value: Any) -> bool:
    """Whether a frame has nothing there, in whichever way its column says so."""
    import pandas

    return bool(pandas.isna(value)) or value == ""
