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
template <class T, int N> struct alignas(sizeof(T) * N) vec { T at[N]; };

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

extern "C" __global__ void __launch_bounds__(128) reduce_64_d877c3(float *__restrict__ arg0, const float *__restrict__ arg1) {
  __shared__ __align__(64) uint8_t arena[16];
  float *const local0 = (float *)(arena + 0);
  float acc1[1];
  float acc0[1];
  int32_t r0 = (int32_t)blockIdx.x;
  int32_t r1 = (int32_t)threadIdx.z;
  float * r2 = acc0 + 0;
  int32_t r3 = shl_i32(r0, 10);
  int32_t r4 = (int32_t)threadIdx.x;
  int32_t r5 = shl_i32(r4, 2);
  int32_t r6 = (int32_t)((uint32_t)r3 + (uint32_t)r5);
  int32_t r7 = (int32_t)threadIdx.y;
  int32_t r8 = shl_i32(r7, 7);
  int32_t r9 = (int32_t)((uint32_t)r6 + (uint32_t)r8);
  int32_t r10 = shl_i32(r1, 9);
  int32_t r11 = (int32_t)((uint32_t)r9 + (uint32_t)r10);
  *r2 = 0.0f;
  #pragma unroll 2
  for (int32_t r12 = 0; r12 < 2; r12++) {
    float * r13 = acc0 + 0;
    float r14 = *r13;
    int32_t r15 = shl_i32(r12, 8);
    int32_t r16 = (int32_t)((uint32_t)r11 + (uint32_t)r15);
    float * r17 = (float *)(arg1 + r16);
    vec<float, 4> r18 = *(const vec<float, 4> *)r17;
    float r19 = r18.at[0];
    float r20 = (r19 * 2.0f);
    float r21 = r18.at[2];
    float r22 = (r21 * 2.0f);
    float r23 = (r20 + r22);
    float r24 = r18.at[1];
    float r25 = (r24 * 2.0f);
    float r26 = r18.at[3];
    float r27 = (r26 * 2.0f);
    float r28 = (r25 + r27);
    float r29 = (r23 + r28);
    float r30 = (r14 + r29);
    *r13 = r30;
  }
  float * r31 = acc0 + 0;
  float r32 = *r31;
  float * r33 = acc1 + 0;
  int32_t r34 = shl_i32(r1, 1);
  int32_t r35 = (int32_t)((uint32_t)r34 + (uint32_t)r7);
  float * r36 = local0 + r35;
  float r37 = r32;
  float r37_from16 = from_thread(r37, 16);
  r37 = (r37 + r37_from16);
  float r37_from8 = from_thread(r37, 8);
  r37 = (r37 + r37_from8);
  float r37_from4 = from_thread(r37, 4);
  r37 = (r37 + r37_from4);
  float r37_from2 = from_thread(r37, 2);
  r37 = (r37 + r37_from2);
  float r37_from1 = from_thread(r37, 1);
  r37 = (r37 + r37_from1);
  bool r38 = (r4 == 0);
  if (r38) *r36 = r37;
  __syncthreads();
  *r33 = 0.0f;
  #pragma unroll 2
  for (int32_t r39 = 0; r39 < 2; r39++) {
    float * r40 = acc1 + 0;
    float r41 = *r40;
    int32_t r42 = (int32_t)((uint32_t)r34 + (uint32_t)r39);
    float * r43 = local0 + r42;
    float r44 = *r43;
    float r45 = (r41 + r44);
    *r40 = r45;
  }
  float * r46 = acc1 + 0;
  float r47 = *r46;
  int32_t r48 = shl_i32(r0, 1);
  int32_t r49 = (int32_t)((uint32_t)r48 + (uint32_t)r1);
  float * r50 = (float *)(arg0 + r49);
  bool r51 = (r7 == 0);
  bool r52 = (r51 && r38);
  if (r52) *r50 = r47;
}
