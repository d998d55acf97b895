"""`python -m reproduction`: the paper's experiments."""

from reproduction.cli import app

if __name__ == "__main__":
    app()
