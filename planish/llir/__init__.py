"""LLIR, the linear IR: buffers, registers, loops, addresses."""
