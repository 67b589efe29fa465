"""Stage 18 by family: functions of floats, division and bits of integers, contraction.

support       what a target has; an op in it is left alone
reals         float arithmetic as a small language: fused or not, in pairs of floats where one is too short
functions     every function of a float as a rule, from exp_log, trig, hyperbolic, erf_pow, roots and float_ops
coefficients  their polynomials
division      integer division: shifts, magic numbers, truncation, guards
bits          shifts, counting, powers, random bits
contraction   multiply-add
plain         ops by other ops, and conditions in the form that costs least
"""
