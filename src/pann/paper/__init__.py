"""The paper as data: its published figures, and the rules by which it chose its degrees."""

from pann.paper.degrees import degree_of, terms_of
from pann.paper.published import EXHIBITS, Exhibit, load, tables

__all__ = ["EXHIBITS", "Exhibit", "degree_of", "load", "tables", "terms_of"]
