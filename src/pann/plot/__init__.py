"""Pictures of solutions, still and moving."""
