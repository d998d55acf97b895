"""The screens of `pann fit` and `pann info`: the lines of a report, for people to read."""

from typing import Any

HOW = {
    "polynomial": "ridge regression",
    "second order": "Levenberg-Marquardt on a small tanh network",
    "gradient": "minibatch Adam on a network that sees ranks of the features",
    "as asked": "the recipe asked for",
}


def fit_lines(report: dict[str, Any]) -> list[str]:
    lines = [*_size_lines(report), _how_line("chosen", report), _model_line(report)]
    for target, errors in report["by_target"].items():
        name = f"{target}: " if len(report["targets"]) > 1 else ""
        figures = {"R2": errors["r2"], "RMSE": errors["rmse"], "relative l2": errors["rel_l2"]}
        lines.append(f"test      {name}{', '.join(f'{k} {figure(v)}' for k, v in figures.items())}")
    if report["share_network"] is not None:
        lines.append(
            f"shares    network {report['share_network']:.1%}, polynomial "
            f"{report['share_polynomial']:.1%} of the prediction's variance"
        )
    lines += _term_lines(report)
    lines.append(f"time      {duration(report['seconds'])}")
    left_out = ", not to those of the test" if report["rows_held_out"] else ""
    lines.append(f"written   {report['file']} (fitted to {report['rows_fitted']:,} rows{left_out})")
    return lines


def plan_lines(report: dict[str, Any]) -> list[str]:
    lines = _size_lines(report)
    for way in report["ways"]:
        layers = "-".join(str(width) for width in way["widths"])
        network = f"network {layers}" if layers else "no network"
        lines.append(
            f"try       {way['how']}: degree {way['degree']}, {way['terms']:,} polynomial terms, "
            f"{network}; about {duration(max(way['seconds'], 1.0))}"
        )
    return [
        *lines,
        f"memory    about {max(report['bytes'] / 2**20, 1):,.0f} MiB besides the table and JAX",
        f"time      about {duration(report['seconds'])} on two CPU cores, a rough guess",
        "nothing was trained or written (--dry-run)",
    ]


def info_lines(report: dict[str, Any]) -> list[str]:
    width = max(len(feature["name"]) for feature in report["features"])
    lines = [
        f"{report['file']}: a regressor, written by pann {report['pann_version']} (file format "
        f"{report['format_version']})",
        f"target    {', '.join(report['targets'])}",
        f"features  {len(report['features'])}, with their range in training",
        *(
            f"  {feature['name']:{width}}  {feature['low']:.6g} to {feature['high']:.6g}"
            for feature in report["features"]
        ),
        _how_line("trained", report),
        _model_line(report),
    ]
    if report["held_out_error"] is not None:
        lines.append(
            f"error     RMSE {figure(report['held_out_error'])} on rows that training held out to "
            "choose by"
        )
    if report["options"]:
        given = ", ".join(f"{name}={value}" for name, value in report["options"].items())
        lines.append(f"options   {given}")
    return lines + _term_lines(report)


def _size_lines(report: dict[str, Any]) -> list[str]:
    num_features = len(report["features"])
    features = f"{num_features} feature{'s' if num_features > 1 else ''}"
    return [
        f"table     {report['rows']:,} rows, {features}, target {', '.join(report['targets'])}",
        f"rows      {report['rows_fitted']:,} to fit, {report['rows_held_out']:,} to test",
    ]


def _how_line(title: str, report: dict[str, Any]) -> str:
    return f"{title:10}{report['how']}: {HOW.get(report['how'], report['how'])}"


def _model_line(report: dict[str, Any]) -> str:
    terms, units, trials = report["terms"], report["units"], report["trials"]
    polynomial = (
        f"degree {report['degree']}, {terms:,} polynomial terms" if terms else "no polynomial"
    )
    network = f"{units:,} units in the last layer" if units else "no network"
    return f"model     {polynomial}, {network}" + (f", {trials} trials" if trials > 1 else "")


def _term_lines(report: dict[str, Any]) -> list[str]:
    lines = ["terms     the leading ones, in features scaled to [-1, 1]:"]
    for term in report["leading_terms"]:
        signed = [f"{coefficient:+.3g}" for coefficient in term["coefficients"]]
        factor = signed[0] if len(signed) == 1 else f"({', '.join(signed)})"
        lines.append(f"  {factor}" if term["term"] == "1" else f"  {factor} * {term['term']}")
    return lines


def figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"
