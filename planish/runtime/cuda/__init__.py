"""NVIDIA GPUs: the driver, compiling, memory, arrays and launches. Nothing here is imported before a GPU is asked for."""
