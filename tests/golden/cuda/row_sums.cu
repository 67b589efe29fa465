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

extern "C" __global__ void __launch_bounds__(128) reduce_64_aa2bfb(float *__restrict__ arg0, const float *__restrict__ arg1) {
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
    int32_t r13 = shl_i32(r12, 8);
    int32_t r14 = (int32_t)((uint32_t)r11 + (uint32_t)r13);
    float * r15 = (float *)(arg1 + r14);
    vec<float, 4> r16 = *(const vec<float, 4> *)r15;
    float * r17 = acc0 + 0;
    float r18 = *r17;
    float r19 = r16.at[3];
    float r20 = r16.at[1];
    float r21 = r16.at[2];
    float r22 = r16.at[0];
    float r23 = fmaf(r22, 2.0f, r18);
    float r24 = fmaf(r21, 2.0f, r23);
    float r25 = fmaf(r20, 2.0f, r24);
    float r26 = fmaf(r19, 2.0f, r25);
    *r17 = r26;
  }
  float * r27 = acc0 + 0;
  float r28 = *r27;
  float * r29 = acc1 + 0;
  int32_t r30 = shl_i32(r7, 1);
  int32_t r31 = (int32_t)((uint32_t)r1 + (uint32_t)r30);
  float * r32 = local0 + r31;
  float r33 = r28;
  float r33_from16 = from_thread(r33, 16);
  r33 = (r33 + r33_from16);
  float r33_from8 = from_thread(r33, 8);
  r33 = (r33 + r33_from8);
  float r33_from4 = from_thread(r33, 4);
  r33 = (r33 + r33_from4);
  float r33_from2 = from_thread(r33, 2);
  r33 = (r33 + r33_from2);
  float r33_from1 = from_thread(r33, 1);
  r33 = (r33 + r33_from1);
  bool r34 = (r4 == 0);
  if (r34) *r32 = r33;
  __syncthreads();
  *r29 = 0.0f;
  #pragma unroll 2
  for (int32_t r35 = 0; r35 < 2; r35++) {
    float * r36 = acc1 + 0;
    float r37 = *r36;
    int32_t r38 = shl_i32(r35, 1);
    int32_t r39 = (int32_t)((uint32_t)r1 + (uint32_t)r38);
    float * r40 = local0 + r39;
    float r41 = *r40;
    float r42 = (r37 + r41);
    *r36 = r42;
  }
  float * r43 = acc1 + 0;
  float r44 = *r43;
  int32_t r45 = shl_i32(r0, 1);
  int32_t r46 = (int32_t)((uint32_t)r45 + (uint32_t)r1);
  float * r47 = (float *)(arg0 + r46);
  bool r48 = (r7 == 0);
  bool r49 = (r48 && r34);
  if (r49) *r47 = r44;
}
