"""Stages 11–15: reduces, loads, vectors and indices become what hardware has."""
