"""Compiling, loading and calling generated code."""
