"""Stage 18 by family: functions of floats, division and bits of integers, contraction.

support      what a target has; an op in it is left alone
reals        float arithmetic as a small language: fused or not, in pairs of floats where one is too short
exp_log trig hyperbolic erf_pow roots float_ops      floats
division bits power threefry                         integers
contraction  multiply-add
"""
