"""Back ends: LLIR into source text, by tables."""
