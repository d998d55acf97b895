"""Failures, as opposed to errors in arguments: of a method, or of a file.

They have their own classes, so that a caller who tries another method instead catches no error that
a user's function raised.
"""


class FileError(ValueError):
    """A file that cannot be opened or written; the message says why, and what to do."""


class NotConverged(ValueError):
    """A method found no solution; the message says where, and what to change."""


class WindowsFailed(NotConverged):
    """Windows of time do not solve a problem, which another method may."""
