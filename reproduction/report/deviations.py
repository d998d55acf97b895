"""The section of how the paper was read, and the same for one experiment."""

from pann.report.page import Column, Note, Section, Table, Value
from reproduction.deviations import deviations


def deviation_section() -> Section:
    lines = tuple(
        tuple(Value(text) for text in (each.about, each.paper, each.here, each.why))
        for each in deviations()
    )
    titles = ("about", "the paper", "here, in the faithful mode", "why")
    columns = tuple(Column(title, is_wide=title != "about") for title in titles)
    by_default = Note(
        "By default pann does something else altogether: whatever is linear is solved for, in "
        "float64, and the network is trained by Levenberg-Marquardt; the default columns are that."
    )
    return Section(
        "deviations",
        "Deviations from the paper",
        "Where the paper is silent, or says two things, the faithful mode had to choose.",
        (Table("Each is an ordinary option.", columns, lines), by_default),
        group="About",
    )


def deviations_of(experiment: str) -> tuple[str, ...]:
    """A line for each deviation that concerns this experiment and not all of them."""
    return tuple(
        f"{each.about}. Paper: {each.paper}. Here: {each.here}. Why: {each.why}."
        for each in deviations()
        if experiment in each.experiments
    )
