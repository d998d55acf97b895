"""Failures of a method, as opposed to those of what it was given.

They have classes of their own, so that a caller who tries another method instead catches no error
that a user's function raised.
"""


class NotConverged(ValueError):
    """A method found no solution; the message says where, and what to change."""


class WindowsFailed(NotConverged):
    """Windows of time do not solve a problem, which another method may."""
