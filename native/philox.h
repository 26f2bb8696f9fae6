// Philox4x32 with 7 rounds and its ten 12-bit noises, as padenet/core/noise.py defines them.
#pragma once
#include "problem.h"
#include "vec.h"

namespace PADENET_ISA {

constexpr int ROUNDS = 7, A_DRAW = 10;
constexpr uint32_t MUL0 = 0xD2511F53, MUL1 = 0xCD9E8D57, KEY0 = 0x9E3779B9, KEY1 = 0xBB67AE85;

typedef Lanes<float>::U Words;
typedef uint64_t Wide __attribute__((vector_size(BYTES)));  // a product of words in each lane

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

inline Words xor3(Words a, Words b, Words c) {
#if defined(__AVX512F__)
  return (Words)_mm512_ternarylogic_epi32((__m512i)a, (__m512i)b, (__m512i)c, 0x96);
#else
  return a ^ b ^ c;
#endif
}

// The high and the low halves of the products of even lanes and of odd lanes, lane by lane.
inline Words high_words(Wide even, Wide odd) {
#if defined(__AVX512F__)
  return (Words)_mm512_mask_shuffle_epi32((__m512i)odd, 0x5555, (__m512i)even, _MM_PERM_DDBB);
#elif defined(__AVX2__)
  return (Words)_mm256_blend_epi32(_mm256_shuffle_epi32((__m256i)even, 0xf5), (__m256i)odd, 0xaa);
#else
  return (Words)((even >> 32) | (odd & ~(uint64_t)UINT32_MAX));
#endif
}

inline Words low_words(Wide even, Wide odd) {
#if defined(__AVX512F__)
  return (Words)_mm512_mask_shuffle_epi32((__m512i)even, 0xaaaa, (__m512i)odd, _MM_PERM_CCAA);
#elif defined(__AVX2__)
  return (Words)_mm256_blend_epi32((__m256i)even, _mm256_shuffle_epi32((__m256i)odd, 0xa0), 0xaa);
#else
  return (Words)((even & UINT32_MAX) | (odd << 32));
#endif
}

// The keys of all rounds; each in every lane.
struct Keys {
  uint64_t key;
  Words k0[ROUNDS], k1[ROUNDS];

  explicit Keys(uint64_t seed) : key(seed) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
      k0[i] = Words{} + ((uint32_t)key + i * KEY0);
      k1[i] = Words{} + ((uint32_t)(key >> 32) + i * KEY1);
    }
  }
};

// Rounds `first` and on, for H vectors of counters in step, which keeps the multipliers busy.
template <int H>
__attribute__((always_inline)) inline void philox(Words (*c)[4], int first, const Keys& keys) {
#pragma GCC unroll 7
  for (int i = first; i < ROUNDS; i++) {
#pragma GCC unroll 2
    for (int h = 0; h < H; h++) {
      Words* w = c[h];
      const Wide c0 = (Wide)w[0], c2 = (Wide)w[2];
      const Wide even0 = multiply_low(c0, MUL0), odd0 = multiply_low(c0 >> 32, MUL0);
      const Wide even1 = multiply_low(c2, MUL1), odd1 = multiply_low(c2 >> 32, MUL1);
      w[0] = xor3(high_words(even1, odd1), w[1], keys.k0[i]);
      w[1] = low_words(even1, odd1);
      w[2] = xor3(high_words(even0, odd0), w[3], keys.k1[i]);
      w[3] = low_words(even0, odd0);
    }
  }
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

// Whether the counters of n elements at `offset` are a sequence with one high word.
inline bool in_sequence(const Problem& p, uint64_t offset, int n) {
  return !p.rank && (uint32_t)offset <= UINT32_MAX - (uint32_t)n;
}

// The words of elements whose counters are no simple sequence.
__attribute__((noinline)) inline void draw_apart(const Problem& p, const Keys& keys,
                                                 uint64_t offset, uint32_t block, Words* w) {
  Words c[1][4] = {{Words{}, Words{}, Words{} + block, Words{}}};
  for (int i = 0; i < Lanes<float>::W; i++) {
    const uint64_t at = index_in_shape(p, offset + i);
    c[0][0][i] = (uint32_t)at, c[0][1][i] = (uint32_t)(at >> 32);
  }
  philox<1>(c, 0, keys);
  memcpy(w, c, sizeof c);
}

// Draw `block` of the W elements at each of H offsets: four words at w[h].
// In a sequence all but the low word of the counter (low, high, block, 0) is the same in all lanes,
// and so is half of the first two rounds.
template <int H>
__attribute__((always_inline)) inline void draw(const Problem& p, const Keys& keys,
                                                const uint64_t* offset, uint32_t block,
                                                Words* const* w) {
  constexpr int W = Lanes<float>::W;
  const uint32_t high = (uint32_t)(offset[0] >> 32);
  bool apart = false;
  for (int h = 0; h < H; h++)
    apart |= !in_sequence(p, offset[h], W) || (uint32_t)(offset[h] >> 32) != high;
  if (__builtin_expect(apart, 0)) {
    for (int h = 0; h < H; h++) draw_apart(p, keys, offset[h], block, w[h]);
    return;
  }
  Wide ramp{};
  for (int i = 0; i < W / 2; i++) ramp[i] = (uint64_t)MUL0 * 2 * i;
  const uint64_t first = (uint64_t)MUL1 * block;
  const uint64_t second = (uint64_t)MUL0 * ((uint32_t)(first >> 32) ^ high ^ (uint32_t)keys.key);
  const Words k0 = keys.k0[1] ^ (uint32_t)first, k1 = keys.k1[1] ^ (uint32_t)(second >> 32);
  Words c[H][4];
#pragma GCC unroll 2
  for (int h = 0; h < H; h++) {
    const Wide even = ramp + (uint64_t)MUL0 * (uint32_t)offset[h], odd = even + MUL0;
    const Words c2 = high_words(even, odd) ^ keys.k1[0];
    const Wide even1 = multiply_low((Wide)c2, MUL1), odd1 = multiply_low((Wide)c2 >> 32, MUL1);
    c[h][0] = high_words(even1, odd1) ^ k0, c[h][1] = low_words(even1, odd1);
    c[h][2] = low_words(even, odd) ^ k1, c[h][3] = Words{} + (uint32_t)second;
  }
  philox<H>(c, 2, keys);
#pragma GCC unroll 2
  for (int h = 0; h < H; h++)
    for (int k = 0; k < 4; k++) w[h][k] = c[h][k];
}

// (v & mask) | w
inline Words masked_or(Words v, Words mask, Words w) {
#if defined(__AVX512F__)
  return (Words)_mm512_ternarylogic_epi32((__m512i)v, (__m512i)mask, (__m512i)w, 0xea);
#else
  return (v & mask) | w;
#endif
}

// Noise `slot` of the words, as 1 + k / 4096 in [1, 2): k becomes the top of the mantissa.
__attribute__((always_inline)) inline Vec<float> noise(const Words* w, int slot, float) {
  const Words one = Words{} + 0x3f800000;
  if (slot < 8) {
    const Words v = slot % 2 ? w[slot / 2] << 3 : w[slot / 2] >> 9;
    return (Vec<float>)masked_or(v, Words{} + 0x7ff800, one);
  }
  const Words low = w[2 * slot - 16] << 11, high = w[2 * slot - 15] << 19;
  return (Vec<float>)masked_or(low, Words{} + 0x7f800, masked_or(high, Words{} + 0x780000, one));
}

// The same of the first W words, for doubles.
inline Vec<double> noise(const Words* w, int slot, double) {
  using U = Lanes<double>::U;
  auto word = [&](int k) {
    typedef uint32_t Half __attribute__((vector_size(BYTES / 2)));
    Half half;
    memcpy(&half, w + k, sizeof half);
    return __builtin_convertvector(half, U);
  };
  U k;
  if (slot < 8) k = word(slot / 2) >> (slot % 2 ? 8 : 20) & 0xfff;
  else k = (word(2 * slot - 16) & 0xff) | (word(2 * slot - 15) & 0x0f) << 8;
  return (Vec<double>)(k << 40 | 0x3ff0000000000000);
}

// c (1 + u) = f * noise_slope + noise_base, with f from `noise`.
inline double noise_slope(double c, double alpha) { return 2 * alpha * c; }
inline double noise_base(double c, double alpha) { return c * (1 + alpha * (0x1p-12 - 3)); }

}  // namespace PADENET_ISA
