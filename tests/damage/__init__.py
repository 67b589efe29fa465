"""Damage: inputs changed at random, and whether a reader withstands them."""
