"""The 22 stages that take a kernel from ranges and movement ops to a linear list; `pipeline.py` is the table of contents."""
