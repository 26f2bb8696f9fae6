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

// The keys of all rounds; each in every lane.
struct Keys {
  uint64_t key;
  Wide k0[ROUNDS], k1[ROUNDS];

  explicit Keys(uint64_t seed) : key(seed) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
      k0[i] = Wide{} + (uint32_t)((uint32_t)key + i * KEY0);
      k1[i] = Wide{} + (uint32_t)((uint32_t)(key >> 32) + i * KEY1);
    }
  }
};

// Four words for each counter (low, high, block, 0), in the low halves of out[0 .. 3], for H vectors
// of counters in step, which keeps the multipliers busy. The high word is the same in all lanes, so
// that half of the first two rounds is too: it costs nothing.
template <int H>
__attribute__((always_inline)) inline void philox(const Wide* low, uint32_t high, uint32_t block,
                                                  const Keys& keys, Wide (*out)[4]) {
  const uint64_t first = (uint64_t)MUL1 * block;
  const uint32_t u0 = (uint32_t)(first >> 32) ^ high ^ (uint32_t)keys.key;
  const uint64_t second = (uint64_t)MUL0 * u0;
  Wide c0[H], c1[H], c2[H], c3[H];
#pragma GCC unroll 4
  for (int h = 0; h < H; h++) {
    c3[h] = multiply_low(low[h], MUL0);
    c2[h] = (c3[h] >> 32) ^ keys.k1[0];
    c1[h] = multiply_low(c2[h], MUL1);
    c0[h] = xor3(c1[h] >> 32, Wide{} + (uint32_t)first, keys.k0[1]);
    c2[h] = xor3(c3[h], Wide{} + (second >> 32), keys.k1[1]);
    c3[h] = Wide{} + (uint32_t)second;
  }
#pragma GCC unroll 5
  for (int i = 2; i < ROUNDS; i++) {
#pragma GCC unroll 4
    for (int h = 0; h < H; h++) {
      const Wide p0 = multiply_low(c0[h], MUL0), p1 = multiply_low(c2[h], MUL1);
      c0[h] = xor3(p1 >> 32, c1[h], keys.k0[i]);
      c2[h] = xor3(p0 >> 32, c3[h], keys.k1[i]);
      c1[h] = p1;
      c3[h] = p0;
    }
  }
#pragma GCC unroll 4
  for (int h = 0; h < H; h++)
    out[h][0] = c0[h], out[h][1] = c1[h], out[h][2] = c2[h], out[h][3] = c3[h];
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

// The words of the elements at `offset` one by one, where their counters are no simple sequence.
template <int N, class U>
__attribute__((noinline)) void draw_apart(const Problem& p, const Keys& keys, uint64_t offset,
                                          int block, U w[4]) {
  for (int i = 0; i < N; i++) {
    const uint64_t at = index_in_shape(p, offset + i);
    const Wide low = Wide{} + (uint32_t)at;
    Wide out[1][4];
    philox<1>(&low, (uint32_t)(at >> 32), block, keys, out);
    for (int k = 0; k < 4; k++) w[k][i] = (uint32_t)out[0][k][0];
  }
}

// Whether the counters of n elements at `offset` are a sequence with one high word.
inline bool in_sequence(const Problem& p, uint64_t offset, int n) {
  return !p.rank && (uint32_t)offset <= UINT32_MAX - (uint32_t)n;
}

// first, first + by, first + 2 by, ...
inline Wide sequence(uint64_t first, int by) {
  Wide c{};
  for (int i = 0; i < BYTES / 8; i++) c[i] = by * i;
  return c + first;
}

// (v & mask) | w
template <class U>
inline U masked_or(U v, U mask, U w) {
#if defined(__AVX512F__)
  return (U)_mm512_ternarylogic_epi32((__m512i)v, (__m512i)mask, (__m512i)w, 0xea);
#else
  return (v & mask) | w;
#endif
}

// The words of the W elements at `offset`, one to each lane: even lanes and odd lanes drawn apart.
__attribute__((always_inline)) inline void draw(const Problem& p, const Keys& keys,
                                                uint64_t offset, int block,
                                                Lanes<float>::U w[4]) {
  if (__builtin_expect(!in_sequence(p, offset, Lanes<float>::W), 0))
    return draw_apart<Lanes<float>::W>(p, keys, offset, block, w);
  const Wide low[2] = {sequence((uint32_t)offset, 2), sequence((uint32_t)offset + 1, 2)};
  Wide out[2][4];
  philox<2>(low, (uint32_t)(offset >> 32), block, keys, out);
  for (int i = 0; i < 4; i++)
    w[i] = (Lanes<float>::U)masked_or(out[0][i], Wide{} + 0xffffffff, out[1][i] << 32);
}

inline void draw(const Problem& p, const Keys& keys, uint64_t offset, int block,
                 Lanes<double>::U w[4]) {
  if (!in_sequence(p, offset, Lanes<double>::W))
    return draw_apart<Lanes<double>::W>(p, keys, offset, block, w);
  const Wide low = sequence((uint32_t)offset, 1);
  Wide out[1][4];
  philox<1>(&low, (uint32_t)(offset >> 32), block, keys, out);
  for (int i = 0; i < 4; i++) w[i] = (Lanes<double>::U)(out[0][i] & 0xffffffff);
}

// Noise `slot` of the words, as 1 + k / 4096 in [1, 2): k becomes the top of the mantissa.
inline Vec<float> noise(const Lanes<float>::U w[4], int slot) {
  using U = Lanes<float>::U;
  const U one = U{} + 0x3f800000;
  if (slot < 8) {
    const U v = slot % 2 ? w[slot / 2] << 3 : w[slot / 2] >> 9;
    return (Vec<float>)masked_or(v, U{} + 0x7ff800, one);
  }
  const U low = w[2 * slot - 16] << 11, high = w[2 * slot - 15] << 19;
  return (Vec<float>)masked_or(low, U{} + 0x7f800, masked_or(high, U{} + 0x780000, one));
}

inline Vec<double> noise(const Lanes<double>::U w[4], int slot) {
  using U = Lanes<double>::U;
  U k;
  if (slot < 8) k = w[slot / 2] >> (slot % 2 ? 8 : 20) & 0xfff;
  else k = (w[2 * slot - 16] & 0xff) | (w[2 * slot - 15] & 0x0f) << 8;
  return (Vec<double>)(k << 40 | 0x3ff0000000000000);
}

// c (1 + u) = f * noise_slope + noise_base, with f from `noise`.
inline double noise_slope(double c, double alpha) { return 2 * alpha * c; }
inline double noise_base(double c, double alpha) { return c * (1 + alpha * (0x1p-12 - 3)); }

}  // namespace PADENET_ISA
