"""Conversions of 16-bit floats by integers, in LLVM IR: what code calls on processors that have no instruction for them."""

from __future__ import annotations

from typing import Final

NAMES: Final = ("__extendhfsf2", "__truncsfhf2")

SOURCE: Final = """
define float @__extendhfsf2(half %x) {
  %raw = bitcast half %x to i16
  %bits = zext i16 %raw to i32
  %top = and i32 %bits, 32768
  %sign = shl i32 %top, 16
  %size = and i32 %bits, 32767
  %placed = shl i32 %size, 13
  ; the exponent read as that of a float32, which a power of two puts right; subnormals too
  %low = bitcast i32 %placed to float
  %scaled = fmul float %low, 0x46F0000000000000
  %number = bitcast float %scaled to i32
  %special = or i32 %placed, 2139095040
  %isspecial = icmp uge i32 %size, 31744
  %found = select i1 %isspecial, i32 %special, i32 %number
  %whole = or i32 %found, %sign
  %result = bitcast i32 %whole to float
  ret float %result
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %last = lshr i32 %size, 13
  %even = and i32 %last, 1
  %nudge = add i32 %size, 4095
  %nudged = add i32 %nudge, %even
  %cut = lshr i32 %nudged, 13
  %normal = sub i32 %cut, 114688
  ; a subnormal is a whole number of the least one: adding a large number rounds it there
  %absolute = bitcast i32 %size to float
  %sum = fadd float %absolute, 5.0e-1
  %sumbits = bitcast float %sum to i32
  %small = sub i32 %sumbits, 1056964608
  %issmall = icmp ult i32 %size, 947912704
  %number = select i1 %issmall, i32 %small, i32 %normal
  %isless = icmp ult i32 %number, 31744
  %limited = select i1 %isless, i32 %number, i32 31744
  %isnan = icmp ugt i32 %size, 2139095040
  %found = select i1 %isnan, i32 32256, i32 %limited
  %whole = or i32 %found, %sign
  %short = trunc i32 %whole to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""
