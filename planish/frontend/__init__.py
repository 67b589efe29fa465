"""How Python becomes PTIR."""
