#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#define UNROLL(n) _Pragma(TEXT(clang loop unroll_count(n)))
#else
#define UNROLL(n) _Pragma(TEXT(GCC unroll n))
#endif
#define TEXT(x) #x

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x16_at __attribute__((vector_size(64), aligned(4), may_alias));

void u_axpy(float *u_x, float *u_y, int64_t u_n) {
  int32_t r0 = (int32_t)u_n;
  UNROLL(2)
  for (int32_t r1 = 0; r1 < r0; r1++) {
    int32_t r2 = (int32_t)((uint32_t)r1 * (uint32_t)16);
    float * r3 = u_x + r2;
    f32x16 r4 = *(f32x16_at *)r3;
    float * r5 = u_y + r2;
    f32x16 r6 = (r4 * (f32x16){3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f});
    f32x16 r7 = *(f32x16_at *)r5;
    f32x16 r8 = (r6 + r7);
    *(f32x16_at *)r5 = r8;
  }
}
