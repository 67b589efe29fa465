"""Stages 8–10: unrolled and upcast ranges become lanes."""
