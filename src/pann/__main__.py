"""`python -m pann` is `pann`."""

from pann.cli import app

app()
