"""From PTIR to kernels: what shares a kernel, what gets memory."""
