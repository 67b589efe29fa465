"""Random bits."""
