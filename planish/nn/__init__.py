"""Neural networks."""
from planish.nn.functional import *
