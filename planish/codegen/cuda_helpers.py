"""What CUDA C++ needs beside the kernel itself: a prelude, and small functions that a file contains if it uses them.

No header is included: NVRTC takes most of its time to read those. Everything here is compiled as device code
(`--device-as-default-execution-space`), so that what C and CUDA have in common is written once, in `c_helpers`.
"""

from __future__ import annotations

from typing import Final

PRELUDE: Final = """typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define INFINITY __int_as_float(0x7f800000)"""

VECTOR: Final = """// neighbouring elements that one access moves
template <class T, int N> struct alignas(sizeof(T) * (N & -N)) vec { T at[N]; };"""

BITS: Final = """// the same bits as another type
template <class To, class From> inline To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}"""

SHUFFLE: Final = """// a value as the 32 bits or more that warps exchange
template <class T> inline auto as_word(T x) {
  if constexpr (sizeof(T) < 4) {
    uint32_t word = 0;
    memcpy(&word, &x, sizeof(T));
    return word;
  } else {
    return x;
  }
}

template <class T, class W> inline T of_word(W word) {
  T x;
  memcpy(&x, &word, sizeof(T));
  return x;
}

// the value of the thread whose number differs in these bits
template <class T> inline T from_thread(T x, int bits) {
  return of_word<T>(__shfl_xor_sync(0xffffffffu, as_word(x), bits));
}

// the value of the thread so many before, of so many that belong together; one that has none there keeps its own
template <class T> inline T from_before(T x, int away, int width) {
  return of_word<T>(__shfl_up_sync(0xffffffffu, as_word(x), away, width));
}"""

OVERRIDES: Final = {
    "popcount": """static inline {t} popcount_{s}({t} x) {{ return ({t})__popcll((uint64_t)x & {mask}); }}""",
    "clz": """static inline {t} clz_{s}({t} x) {{
  uint64_t bits = (uint64_t)x & {mask};
  return ({t})(__clzll((int64_t)bits) - (64 - {bits}));
}}""",
}
"""Functions for values of any dtype that CUDA has other words for than C."""

_REGISTERS: Final = {"float": "f", "uint16_t": "h", "uint32_t": "r"}
"""What PTX calls the registers of a type."""


def _instruction(name: str, ptx: str, result: str, *operands: str) -> str:
    """A function of up to three operands that is one instruction (or a few, in braces)."""
    told = dict(zip("xyz", operands, strict=False))
    output = "xyzw"[len(operands)]
    parameters = ", ".join(f"{kind} {letter}" for letter, kind in told.items())
    inputs = ", ".join(f'"{_REGISTERS[kind]}"({letter})' for letter, kind in told.items())
    return f"""static inline {result} {name}({parameters}) {{
  {result} {output};
  asm("{ptx}" : "={_REGISTERS[result]}"({output}) : {inputs});
  return {output};
}}"""


_HALVES: Final = "{{ .reg .b16 low, high; mov.b32 {{low, high}}, %1; cvt.f32.f16 %0, {0}; }}"
_INSTRUCTIONS: Final = {
    # NaN stays, 0 is more than -0
    "max_f32": ("max.NaN.f32 %0, %1, %2;", "float", "float", "float"),
    "min_f32": ("min.NaN.f32 %0, %1, %2;", "float", "float", "float"),
    "widen_f16": ("cvt.f32.f16 %0, %1;", "float", "uint16_t"),
    "widen_low_f16": (_HALVES.format("low"), "float", "uint32_t"),
    "widen_high_f16": (_HALVES.format("high"), "float", "uint32_t"),
    "narrow_f16": ("cvt.rn.f16.f32 %0, %1;", "uint16_t", "float"),
    "fma_f16": ("fma.rn.f16 %0, %1, %2, %3;", "uint16_t", "uint16_t", "uint16_t", "uint16_t"),
    "narrow_bf16": ("cvt.rn.bf16.f32 %0, %1;", "uint16_t", "float"),
    "fma_bf16": ("fma.rn.bf16 %0, %1, %2, %3;", "uint16_t", "uint16_t", "uint16_t", "uint16_t"),
    "exp2_estimate_f32": ("ex2.approx.ftz.f32 %0, %1;", "float", "float"),
    "recip_estimate_f32": ("rcp.approx.ftz.f32 %0, %1;", "float", "float"),
    "tanh_estimate_f32": ("tanh.approx.f32 %0, %1;", "float", "float"),
}
"""Functions that are one instruction: it, the type of the result, those of the operands."""

SINGLE: Final = {
    **{name: _instruction(name, *told) for name, told in _INSTRUCTIONS.items()},
    "widen_bf16": """static inline float widen_bf16(uint16_t x) { return __uint_as_float((uint32_t)x << 16); }""",
    "widen_tf32": """static inline float widen_tf32(uint32_t x) { return __uint_as_float(x); }""",
    "narrow_tf32": """static inline uint32_t narrow_tf32(float x) {
  uint32_t bits = __float_as_uint(x), nudged = bits + 0xfff + (bits >> 13 & 1);
  return (x != x ? bits | 0x400000 : nudged) & 0xffffe000;
}""",
    "exp_estimate_f32": """static inline float exp_estimate_f32(float x) {
  // x log2(e) is a whole number, kept within the exponents by an addition that saturates, and what follows the point
  float part, shifted, y;
  asm("fma.rn.sat.f32 %0, %1, 0f3BBB989D, 0f3F000000;" : "=f"(part) : "f"(x));
  asm("fma.rm.f32 %0, %1, 0f437C0000, 0f4B400001;" : "=f"(shifted) : "f"(part));
  float whole = shifted - 12583039.0f;
  float rest = fmaf(x, 0x1.715476p+0f, -whole);
  rest = fmaf(x, 0x1.4ae0cp-26f, rest);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(rest));
  return y * __uint_as_float(__float_as_uint(shifted) << 23);
}""",
    "to_i32_f32": """static inline int32_t to_i32_f32(float x) { return __float2int_rz(x); }  // the nearest end, NaN is 0""",
    "to_u32_f32": """static inline uint32_t to_u32_f32(float x) { return __float2uint_rz(x); }""",
}
"""Functions for one dtype, where the machine has an instruction."""

COPY_ASYNC: Final = {
    nbytes: f"""// {nbytes} bytes to shared memory in the background, or zeros
static inline void copy_async_{nbytes}(void *to, const void *from, bool is_open) {{
  asm volatile("cp.async.{"cg" if nbytes == 16 else "ca"}.shared.global [%0], [%1], {nbytes}, %2;"
               :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(is_open ? {nbytes} : 0) : "memory");
}}"""
    for nbytes in (4, 8, 16)
}
"""Copies of so many bytes. (Sixteen go past the first cache: what is copied is read from shared memory.)"""

PEER: Final = """// the same place in the shared memory of another block of the cluster
template <class T> inline T *peer_memory(T *at, uint32_t rank) {
  uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
  return (T *)there;
}"""
CLUSTER_BARRIER: Final = """asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");"""
"""All threads of all blocks of a cluster that have not ended."""
CLUSTER_END: Final = (
    """asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");"""
)
"""The same where nobody reads anything any more: who waits for all that was written to arrive waits long."""

MMA: Final = """// C[{m}, {n}] += A[{m}, {k}] @ B[{k}, {n}], held by the {threads} threads of a warp
static inline void {name}(vec<{acc}, {cs}> &c, const vec<{left}, {as_}> &a, const vec<{right}, {bs}> &b) {{
  asm("mma.sync.aligned.m{m}n{n}k{k}.row.col.{kinds} {{{c_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}};"
      : {outs} : {ins});
}}"""


def ldmatrix(name: str, count: int, *, transposed: bool) -> str:
    """So many 8×8 matrices of two-byte elements from shared memory, each thread telling where a row begins."""
    outs = ", ".join(f"%{k}" for k in range(count))
    given = ", ".join(f'"=r"(x.at[{k}])' for k in range(count))
    kind = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    return f"""static inline vec<uint32_t, {count}> {name}(const void *row) {{
  vec<uint32_t, {count}> x;
  asm volatile("{kind} {{{outs}}}, [%{count}];" : {given} : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
  return x;
}}"""
