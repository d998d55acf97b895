"""Linear algebra and optimization that know no model and no equation."""
