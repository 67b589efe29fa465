"""The parts of the kernel interpreter (`planish.uop.interpret`)."""
