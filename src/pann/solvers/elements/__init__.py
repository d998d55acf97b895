"""Equations on elements: cut, raised in degree and solved until every element is resolved."""
