"""Run benchmarks by name, or all that two CPU cores do in a few minutes."""

import argparse
import importlib
import pathlib

from benchmarks import harness

NAMES = {
    "construction": "Poisson-disk points and large tables",
    "reproduction": "P10(x1) P10(x2): default recipe, weak and exact constraint",
    "step_cost": "Adam step of the PANN against the DNN; tables once against each step",
    "gradient_or_newton": "Adam against Levenberg-Marquardt at equal time",
    "non_smooth": "non-smooth family, N=16384, against its halves and other regressors",
    "high_dimensional": "high-dimensional sine product, d=2..6",
    "constraints": "recipe paper on P10(x1) P10(x2), every constraint, both precisions",
    "housing": "California housing: default, ensemble, and the paper's experiment",
    "conventional": "California housing: the paper's other regressors, and boosted trees",
    "tables": "diabetes, Friedman and the paper's functions: default against trees and ridge",
    "large_table": "up to a million rows: seconds, seconds an epoch, memory",
    "large_rows": "ten million rows, and ten million points, under memory='8GB'",
    "scaling": "seconds and memory against N, m, w, trials and dimension: exponents",
    "equations": "the problems of pann.problems without options, and the weight of conditions",
    "poisson_paper": "Poisson with recipe paper, PINN and PANN, beside the published cells",
    "inverse": "parameters from noisy data beside nonlinear least squares; KdV",
    "equation_steps": "Adam step on an equation, the PANN against the PINN",
    "variant_steps": "Adam step of RFF, ModMLP, GradNorm and causal against plain, KdV",
    "line_searches": "how often an iteration of L-BFGS evaluates the loss, Poisson",
    "paper_time": "how long the paper's tables of equations take at full size, on this device",
    "best_polynomials": "the least errors of polynomials, beside those published for PL",
    "together": "Adam step on equations and fits, cases as one program against one by one",
    "windows": "evolution problems in windows of time, against the references",
    "tolerance": "a tolerance instead of sizes, every problem: estimates and true errors",
    "trust": "random problems, ill-posed ones too: is what the solver says true?",
    "halves": "polynomials, boxes, the network and both at equal time: sharp problems",
    "classical": "Poisson, Allen-Cahn and KdV against dedicated spectral solvers",
    "sharp": "layers, shocks, peaks and jumps without options, beside solvers of a page",
    "shapes": "disks, rings, corners, holes and bodies without options, beside formulas",
    "kills": "processes killed at random moments and resumed: is the model the same?",
    "report": "the page of the whole paper: bytes, seconds to write and to open",
    "shell_time": "pann solve from the shell: import, tracing, compiling, work",
    "peers.steps": "Adam step on an equation, beside DeepXDE, PINA and jinns",
    "peers.accuracy": "Allen-Cahn beside DeepXDE, PINA and jinns: error in a time, time to 1e-6",
    "peers.regression": "non-smooth regression beside LightGBM, RBF interpolation and neighbors",
    "peers.shapes": "Poisson on a disk and an L, beside scikit-fem and DeepXDE",
    "device": "steps on a GPU beside the floors of its arithmetic and memory",
    "structure": "the code: lines, functions, import chains, files that a call passes through",
    "derivatives": "gradient step of losses with derivatives: Taylor mode against nested",
}
QUICK = ("construction", "reproduction", "step_cost", "gradient_or_newton")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--all", action="store_true", help="the long ones too (better on a GPU)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ROW",
        help="run single rows by their names, and keep the others; may be given several times",
    )
    parser.add_argument(
        "--resume", action="store_true", help="run the rows that a killed run did not come to"
    )
    arguments = parser.parse_args()
    for name in arguments.names or (NAMES if arguments.all else QUICK):
        if name not in NAMES:
            parser.error(f"there is no benchmark '{name}'; choose from {', '.join(NAMES)}")
        module = importlib.import_module(f"benchmarks.{name}")
        if arguments.resume and not hasattr(module, "names"):
            parser.error(f"'{name}' cannot go on from its rows; leave out --resume")
        if arguments.only and not hasattr(module, "KEYS"):
            parser.error(f"'{name}' runs as a whole; leave out --only")
        only = arguments.only
        if arguments.resume:
            only = harness.missing(name, module.names(), arguments.out, module.KEYS)
        rows = module.rows(only) if only else module.rows()
        keys = module.KEYS if only else ()
        collected = harness.run(name, NAMES[name], rows, arguments.out, keys)
        if hasattr(module, "summary"):
            harness.summarize(name, module.summary(collected), arguments.out)


if __name__ == "__main__":
    main()
