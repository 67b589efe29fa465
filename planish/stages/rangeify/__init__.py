"""Stages 1–7: movement ops become index arithmetic, ranges are shaped."""
