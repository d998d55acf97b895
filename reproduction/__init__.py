"""The paper next to the library: its published figures as data, and its experiments.

Rows (`experiments`) are run by `methods` and kept in a store; `cells` match them with what was
published; `comparison`, `figures` and `report` show both. `python -m reproduction list` begins.
"""

from reproduction.degrees import degree_of, terms_of
from reproduction.published import EXHIBITS, Exhibit, load, tables

__all__ = ["EXHIBITS", "Exhibit", "degree_of", "load", "tables", "terms_of"]
