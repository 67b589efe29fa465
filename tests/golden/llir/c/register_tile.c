#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x16_at __attribute__((vector_size(64), aligned(4), may_alias));

void u_register__tile(float *u_c, float *u_a, float *u_b) {
  float u_acc[64] __attribute__((aligned(64)));
  float * r0 = u_acc + 0 * 16;
  *(f32x16_at *)r0 = (f32x16){0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  float * r1 = u_acc + 1 * 16;
  *(f32x16_at *)r1 = (f32x16){0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  float * r2 = u_acc + 2 * 16;
  *(f32x16_at *)r2 = (f32x16){0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  float * r3 = u_acc + 3 * 16;
  *(f32x16_at *)r3 = (f32x16){0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (int32_t r4 = 0; r4 < 8; r4++) {
    int32_t r5 = (int32_t)((uint32_t)r4 * (uint32_t)32);
    int32_t r6 = (int32_t)((uint32_t)r5 + (uint32_t)0);
    float * r7 = u_b + r6;
    f32x16 r8 = *(f32x16_at *)r7;
    int32_t r9 = (int32_t)((uint32_t)r4 * (uint32_t)32);
    int32_t r10 = (int32_t)((uint32_t)r9 + (uint32_t)16);
    float * r11 = u_b + r10;
    f32x16 r12 = *(f32x16_at *)r11;
    int32_t r13 = (int32_t)((uint32_t)0 + (uint32_t)r4);
    float * r14 = u_a + r13;
    float r15 = *r14;
    f32x16 r16 = {r15, r15, r15, r15, r15, r15, r15, r15, r15, r15, r15, r15, r15, r15, r15, r15};
    float * r17 = u_acc + 0 * 16;
    f32x16 r18 = *(f32x16_at *)r17;
    f32x16 r19 = {0};
    for (int l = 0; l < 16; l++) r19[l] = fmaf(r16[l], r8[l], r18[l]);
    *(f32x16_at *)r17 = r19;
    float * r20 = u_acc + 1 * 16;
    f32x16 r21 = *(f32x16_at *)r20;
    f32x16 r22 = {0};
    for (int l = 0; l < 16; l++) r22[l] = fmaf(r16[l], r12[l], r21[l]);
    *(f32x16_at *)r20 = r22;
    int32_t r23 = (int32_t)((uint32_t)8 + (uint32_t)r4);
    float * r24 = u_a + r23;
    float r25 = *r24;
    f32x16 r26 = {r25, r25, r25, r25, r25, r25, r25, r25, r25, r25, r25, r25, r25, r25, r25, r25};
    float * r27 = u_acc + 2 * 16;
    f32x16 r28 = *(f32x16_at *)r27;
    f32x16 r29 = {0};
    for (int l = 0; l < 16; l++) r29[l] = fmaf(r26[l], r8[l], r28[l]);
    *(f32x16_at *)r27 = r29;
    float * r30 = u_acc + 3 * 16;
    f32x16 r31 = *(f32x16_at *)r30;
    f32x16 r32 = {0};
    for (int l = 0; l < 16; l++) r32[l] = fmaf(r26[l], r12[l], r31[l]);
    *(f32x16_at *)r30 = r32;
  }
  float * r33 = u_c + 0;
  float * r34 = u_acc + 0 * 16;
  f32x16 r35 = *(f32x16_at *)r34;
  *(f32x16_at *)r33 = r35;
  float * r36 = u_c + 16;
  float * r37 = u_acc + 1 * 16;
  f32x16 r38 = *(f32x16_at *)r37;
  *(f32x16_at *)r36 = r38;
  float * r39 = u_c + 32;
  float * r40 = u_acc + 2 * 16;
  f32x16 r41 = *(f32x16_at *)r40;
  *(f32x16_at *)r39 = r41;
  float * r42 = u_c + 48;
  float * r43 = u_acc + 3 * 16;
  f32x16 r44 = *(f32x16_at *)r43;
  *(f32x16_at *)r42 = r44;
}
