"""Stages 16–22: the graph becomes a list of instructions."""
