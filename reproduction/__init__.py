"""The paper as data: its published figures, and the rules by which it chose its degrees."""

from reproduction.degrees import degree_of, terms_of
from reproduction.published import EXHIBITS, Exhibit, load, tables

__all__ = ["EXHIBITS", "Exhibit", "degree_of", "load", "tables", "terms_of"]
