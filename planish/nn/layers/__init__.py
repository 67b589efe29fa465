"""The modules of `nn`, by chapter."""
