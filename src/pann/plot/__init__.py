"""Pictures of solutions, still and moving."""

from pann.plot.files import check_picture, write_picture

__all__ = ["check_picture", "write_picture"]
