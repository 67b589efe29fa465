"""Choosing what stage 7 applies."""
