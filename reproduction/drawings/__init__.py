"""How the paper's figures are drawn from runs: lines, bars, maps and histories."""
