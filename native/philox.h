// Philox4x32 with 7 rounds and its ten 12-bit noises, as padenet/noise.py defines them.
#pragma once
#include "problem.h"
#include "vec.h"

namespace PADENET_ISA {

constexpr int ROUNDS = 7, A_DRAW = 10;
constexpr uint32_t MUL0 = 0xD2511F53, MUL1 = 0xCD9E8D57, KEY0 = 0x9E3779B9, KEY1 = 0xBB67AE85;

typedef uint64_t Wide __attribute__((vector_size(BYTES)));

// The 64-bit products of the low halves; the high halves of the factors don't matter.
inline Wide multiply_low(Wide a, uint32_t b) {
#if defined(__AVX512F__)
  return (Wide)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (Wide)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__SSE2__)
  return (Wide)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
  return (a & 0xffffffff) * (uint64_t)b;
#endif
}

inline Wide xor3(Wide a, Wide b, Wide c) {
#if defined(__AVX512F__)
  return (Wide)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, 0x96);
#else
  return a ^ b ^ c;
#endif
}

// The keys of all rounds.
struct Keys {
  Wide k0[ROUNDS], k1[ROUNDS];

  explicit Keys(uint64_t key) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
      k0[i] = Wide{} + (uint32_t)((uint32_t)key + i * KEY0);
      k1[i] = Wide{} + (uint32_t)((uint32_t)(key >> 32) + i * KEY1);
    }
  }
};

// Four words for each counter, in the low halves of out[0 .. 3].
inline void philox(Wide counter, uint32_t block, const Keys& keys, Wide out[4]) {
  Wide c0 = counter, c1 = counter >> 32, c2 = Wide{} + block, c3 = Wide{};
#pragma GCC unroll 7
  for (int i = 0; i < ROUNDS; i++) {
    const Wide p0 = multiply_low(c0, MUL0), p1 = multiply_low(c2, MUL1);
    c0 = xor3(p1 >> 32, c1, keys.k0[i]);
    c2 = xor3(p0 >> 32, c3, keys.k1[i]);
    c1 = p1;
    c3 = p0;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// The index, in the order of the shape, of the element at `offset` in memory.
inline uint64_t index_in_shape(const Problem& p, uint64_t offset) {
  if (!p.rank) return offset;
  uint64_t index = 0;
  for (int64_t d = p.rank - 1; d >= 0; d--) {
    index += offset % p.dims()[d].size * p.dims()[d].stride;
    offset /= p.dims()[d].size;
  }
  return index;
}

// counter[i] for the lanes first, first + by, first + 2 by, ... of the vector at `offset`.
inline Wide counters(const Problem& p, uint64_t offset, int first, int by) {
  constexpr int N = BYTES / 8;
  Wide c{};
  if (p.rank) {
    for (int i = 0; i < N; i++) c[i] = index_in_shape(p, offset + first + by * i);
    return c;
  }
  for (int i = 0; i < N; i++) c[i] = first + by * i;
  return c + offset;
}

// The words of the W elements at `offset`, one to each lane: even lanes and odd lanes drawn apart.
inline void draw(const Problem& p, const Keys& keys, uint64_t offset, int block,
                 Lanes<float>::U w[4]) {
  Wide even[4], odd[4];
  philox(counters(p, offset, 0, 2), block, keys, even);
  philox(counters(p, offset, 1, 2), block, keys, odd);
  for (int i = 0; i < 4; i++) w[i] = (Lanes<float>::U)((even[i] & 0xffffffff) | odd[i] << 32);
}

inline void draw(const Problem& p, const Keys& keys, uint64_t offset, int block,
                 Lanes<double>::U w[4]) {
  Wide out[4];
  philox(counters(p, offset, 0, 1), block, keys, out);
  for (int i = 0; i < 4; i++) w[i] = (Lanes<double>::U)(out[i] & 0xffffffff);
}

// Noise `slot` of the words, as 1 + k / 4096 in [1, 2): k becomes the top of the mantissa.
template <class Real>
inline Vec<Real> noise(const typename Lanes<Real>::U w[4], int slot) {
  using U = typename Lanes<Real>::U;
  constexpr bool single = sizeof(Real) == 4;
  constexpr int up = single ? 11 : 40;
  const U one = U{} + (single ? 0x3f800000 : 0x3ff0000000000000);
  U k;
  if (slot >= 8) {
    U low = w[2 * (slot - 8)], high = w[2 * (slot - 8) + 1];
    k = (low & 0xff) << up | (high & 0x0f) << (up + 8);
  } else if (single) {
    U v = w[slot / 2];
    k = (slot % 2 ? v << 3 : v >> 9) & 0x7ff800;
  } else {
    U v = w[slot / 2];
    k = (v >> (slot % 2 ? 8 : 20) & 0xfff) << up;
  }
  return (Vec<Real>)(k | one);
}

// The factor of noise on coefficient c, c (1 + u) = f * slope + base, with f from `noise`.
inline double noise_slope(double c, double alpha) { return 2 * alpha * c; }
inline double noise_base(double c, double alpha) { return c * (1 + alpha * (0x1p-12 - 3)); }

}  // namespace PADENET_ISA
