"""Small C functions for what C itself leaves undefined or lacks. A file contains those it uses, and no others.

`{t}` is the type of a value, `{u}` its unsigned type, `{s}` the short name of the dtype, `{bits}` its width.
"""

from __future__ import annotations

from typing import Final

GENERIC: Final = {
    "shl": """static inline {t} shl_{s}({t} x, {t} by) {{
  return (uint64_t)by < {bits} ? ({t})((uint64_t)x << by) : 0;  // beyond the width every bit moves out
}}""",
    "shr": """static inline {t} shr_{s}({t} x, {t} by) {{
  return (uint64_t)by < {bits} ? ({t})(x >> by) : ({t})(x < 0 ? -1 : 0);
}}""",
    "ushr": """static inline {t} ushr_{s}({t} x, {t} by) {{
  return (uint64_t)by < {bits} ? ({t})(x >> by) : 0;
}}""",
    "div": """static inline {t} div_{s}({t} x, {t} by) {{
  return by == 0 ? 0 : by == -1 ? ({t})-({u})x : ({t})(x / by);  // no trap: x / 0 is 0, the least by -1 wraps
}}""",
    "mod": """static inline {t} mod_{s}({t} x, {t} by) {{
  return by == 0 || by == -1 ? 0 : ({t})(x % by);
}}""",
    "udiv": """static inline {t} udiv_{s}({t} x, {t} by) {{ return by == 0 ? 0 : ({t})(x / by); }}""",
    "umod": """static inline {t} umod_{s}({t} x, {t} by) {{ return by == 0 ? 0 : ({t})(x % by); }}""",
    "abs": """static inline {t} abs_{s}({t} x) {{ return x < 0 ? ({t})-({u})x : x; }}""",
    "max": """static inline {t} max_{s}({t} x, {t} y) {{
  if (x != x || y != y) return x + y;  // NaN stays
  return x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}}""",
    "min": """static inline {t} min_{s}({t} x, {t} y) {{
  if (x != x || y != y) return x + y;
  return x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}}""",
    "scale": """static inline {t} scale_{s}({t} x, {t} y) {{
  if (y != y) return y;
  if (isinf(y)) return x != x ? (y > 0 ? y : 0) : x * (y > 0 ? y : 0);
  return ({t})ldexp{f}(x, (int)(y > 65536 ? 65536 : y < -65536 ? -65536 : floor{f}(y)));
}}""",
    "scale_whole": """static inline {v} scale_whole_{s}({v} x, {v} y) {{
#ifdef __AVX512F__
  return ({v})__builtin_ia32_scalefp{p}512_mask(x, y, x, -1, 4);
#else
  {v} found;
  for (int l = 0; l < {lanes}; l++) found[l] = scale_{s}(x[l], y[l]);
  return found;
#endif
}}""",
    "lookup_whole": """static inline {v} lookup_whole_{s}({v} table, {w} index) {{
#if !defined(__clang__)
  return __builtin_shuffle(table, index);
#elif defined(__AVX512F__)
  return ({v})__builtin_ia32_permvar{p}f512(table, index);
#else
  {v} found;
  for (int l = 0; l < {lanes}; l++) found[l] = table[index[l] & {lanes} - 1];
  return found;
#endif
}}""",
    "round_to": """static inline {t} round_to_{s}(double x) {{
  // beyond the range the nearest end, NaN is 0
  if (!(x > {low})) return x <= {low} ? {least} : 0;
  return x >= {high} ? {most} : ({t})x;
}}""",
    "popcount": """static inline {t} popcount_{s}({t} x) {{ return ({t})__builtin_popcountll((uint64_t)x & {mask}); }}""",
    "clz": """static inline {t} clz_{s}({t} x) {{
  uint64_t bits = (uint64_t)x & {mask};
  return ({t})(bits ? __builtin_clzll(bits) - (64 - {bits}) : {bits});
}}""",
}

SINGLE: Final = {
    "flushed": "static inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }",
    "wrap_i4": "static inline int8_t wrap_i4(int x) { return (int8_t)(((x & 15) ^ 8) - 8); }",
    "wrap_u4": "static inline uint8_t wrap_u4(int x) { return (uint8_t)(x & 15); }",
    "widen": """static inline float widen(uint32_t bits, int mantissa, int exponent, bool infinite) {
  uint32_t low = bits & ((1u << mantissa) - 1), high = (bits >> mantissa) & ((1u << exponent) - 1);
  uint32_t top = (1u << exponent) - 1;
  float sign = (bits >> (mantissa + exponent)) & 1 ? -1.0f : 1.0f;
  int bias = (1 << (exponent - 1)) - 1;
  if (high == top && (infinite ? low != 0 : low == (1u << mantissa) - 1)) return nanf("");
  if (high == top && infinite) return sign * (float)INFINITY;
  if (high == 0) return sign * ldexpf((float)low, 1 - bias - mantissa);
  return sign * ldexpf((float)(low | 1u << mantissa), (int)high - bias - mantissa);
}""",
    "narrow": """static inline uint32_t narrow(double x, int mantissa, int exponent, bool infinite) {
  // to the nearest, ties to even, rounded once
  uint64_t bits;
  memcpy(&bits, &x, 8);
  uint32_t sign = (uint32_t)(bits >> 63) << (mantissa + exponent);
  uint32_t top = (1u << exponent) - 1;
  uint32_t limit = infinite ? top << mantissa : (1u << (mantissa + exponent)) - 1;
  if (x != x) return sign | limit | (infinite ? 1u << (mantissa - 1) : 0);
  bits &= ~(1ull << 63);
  if (bits == 0) return sign;
  int bias = (1 << (exponent - 1)) - 1, power = (int)(bits >> 52) - 1023;
  uint64_t value = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  int shift = 52 - mantissa + (power < 1 - bias ? 1 - bias - power : 0);
  if (shift > 54) return sign;
  uint64_t kept = value >> shift, rest = value & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  kept += rest > half || (rest == half && (kept & 1));
  if (power >= 1 - bias) {
    if (power > bias + 1) return sign | limit;
    kept += (uint64_t)(power + bias - 1) << mantissa;
  }
  return sign | (kept >= limit ? limit : (uint32_t)kept);
}""",
    "store_past": """#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(v, to, x) __builtin_nontemporal_store(x, (v *)(to))
#define STREAM_BYTES 16
#endif
#endif
#if !defined(STREAM) && defined(__AVX512F__)
#define STREAM(v, to, x) __builtin_ia32_movntdq512((v *)(to), x)
#define STREAM_BYTES 64
#elif !defined(STREAM) && defined(__AVX__)
#define STREAM(v, to, x) __builtin_ia32_movntdq256((v *)(to), x)
#define STREAM_BYTES 32
#elif !defined(STREAM) && defined(__SSE2__)
#define STREAM(v, to, x) __builtin_ia32_movntdq((v *)(to), x)
#define STREAM_BYTES 16
#endif
static inline __attribute__((always_inline)) void store_past(void *to, const void *from, int size) {
#ifdef STREAM
  // past the caches; the address is a multiple of the size
  typedef long long whole __attribute__((vector_size(STREAM_BYTES)));
  if (size % STREAM_BYTES == 0) {
    for (int at = 0; at < size; at += STREAM_BYTES) {
      whole x;
      memcpy(&x, (const char *)from + at, STREAM_BYTES);
      STREAM(whole, (char *)to + at, x);
    }
    return;
  }
#endif
  memcpy(to, from, (unsigned long)size);
}""",
    "make_odd": """static inline double make_odd(double x, double error) {
  // x was rounded by this error: bring it toward zero and mark its last bit, so that rounding on is rounding once
  if (!(error > 0 || error < 0) || isinf(x)) return x;
  uint64_t bits;
  memcpy(&bits, &x, 8);
  if ((error < 0) != (x < 0)) bits -= 1;
  bits |= 1;
  memcpy(&x, &bits, 8);
  return x;
}""",
    "odd_fma": """static inline double odd_fma(double x, double y, double z) {
  double product = x * y, total = product + z;  // the product of two narrow floats is exact
  double virtual_z = total - product, rest = z - virtual_z, back = total - virtual_z;
  return make_odd(total, (product - back) + rest);
}""",
    "odd_i64": """static inline double odd_i64(int64_t x) {
  double near = (double)x;
  if (near > -0x1p52 && near < 0x1p52) return near;
  return (double)((x >> 12) | ((x & 0xfff) != 0)) * 4096.0;
}""",
    "odd_u64": """static inline double odd_u64(uint64_t x) {
  double near = (double)x;
  if (near < 0x1p52) return near;
  return (double)((x >> 12) | ((x & 0xfff) != 0)) * 4096.0;
}""",
}
NEEDS: Final = {"odd_fma": ("make_odd",)}
