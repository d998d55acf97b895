"""`python -m pann` is `pann`."""

from pann.cli.main import app

app()
