typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define INFINITY __int_as_float(0x7f800000)

// neighbouring elements that one access moves
template <class T, int N> struct alignas(sizeof(T) * (N & -N)) vec { T at[N]; };

// a value as the 32 bits or more that warps exchange
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
}

static inline int32_t shl_i32(int32_t x, int32_t by) {
  return (uint64_t)by < 32 ? (int32_t)((uint64_t)x << by) : 0;  // beyond the width every bit moves out
}

extern "C" __global__ void __launch_bounds__(64) reduce_64_aa2bfb(float *__restrict__ arg0, const float *__restrict__ arg1) {
  __shared__ __align__(64) uint8_t arena[8];
  float *const local0 = (float *)(arena + 0);
  float acc1[1];
  float acc0[1];
  int32_t r0 = (int32_t)blockIdx.x;
  float * r1 = acc0 + 0;
  int32_t r2 = shl_i32(r0, 9);
  int32_t r3 = (int32_t)threadIdx.x;
  int32_t r4 = shl_i32(r3, 2);
  int32_t r5 = (int32_t)((uint32_t)r2 + (uint32_t)r4);
  int32_t r6 = (int32_t)threadIdx.y;
  int32_t r7 = shl_i32(r6, 7);
  int32_t r8 = (int32_t)((uint32_t)r5 + (uint32_t)r7);
  *r1 = 0.0f;
  #pragma unroll 2
  for (int32_t r9 = 0; r9 < 2; r9++) {
    int32_t r10 = shl_i32(r9, 8);
    int32_t r11 = (int32_t)((uint32_t)r8 + (uint32_t)r10);
    float * r12 = (float *)(arg1 + r11);
    vec<float, 4> r13 = *(const vec<float, 4> *)r12;
    float * r14 = acc0 + 0;
    float r15 = *r14;
    float r16 = r13.at[3];
    float r17 = r13.at[1];
    float r18 = r13.at[2];
    float r19 = r13.at[0];
    float r20 = fmaf(r19, 2.0f, r15);
    float r21 = fmaf(r18, 2.0f, r20);
    float r22 = fmaf(r17, 2.0f, r21);
    float r23 = fmaf(r16, 2.0f, r22);
    *r14 = r23;
  }
  float * r24 = acc0 + 0;
  float r25 = *r24;
  float * r26 = acc1 + 0;
  float * r27 = local0 + r6;
  float r28 = r25;
  float r28_from16 = from_thread(r28, 16);
  r28 = (r28 + r28_from16);
  float r28_from8 = from_thread(r28, 8);
  r28 = (r28 + r28_from8);
  float r28_from4 = from_thread(r28, 4);
  r28 = (r28 + r28_from4);
  float r28_from2 = from_thread(r28, 2);
  r28 = (r28 + r28_from2);
  float r28_from1 = from_thread(r28, 1);
  r28 = (r28 + r28_from1);
  bool r29 = (r3 == 0);
  if (r29) *r27 = r28;
  __syncthreads();
  *r26 = 0.0f;
  #pragma unroll 2
  for (int32_t r30 = 0; r30 < 2; r30++) {
    float * r31 = acc1 + 0;
    float r32 = *r31;
    float * r33 = local0 + r30;
    float r34 = *r33;
    float r35 = (r32 + r34);
    *r31 = r35;
  }
  float * r36 = acc1 + 0;
  float r37 = *r36;
  float * r38 = (float *)(arg0 + r0);
  bool r39 = (r6 == 0);
  bool r40 = (r39 && r29);
  if (r40) *r38 = r37;
}
