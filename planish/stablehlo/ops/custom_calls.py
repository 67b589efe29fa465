"""Calls of functions outside of StableHLO, by name."""
