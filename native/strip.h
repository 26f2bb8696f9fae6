// The inner loops: `count` vectors side by side.
//
// Formula: padenet/core/formula.py. The coefficients a_0 .. a_m, d_0 .. d_n are a vector each. d_0 is 0
// without a constant, and d_k is |b_k| for PER_TERM.
//
// One set of coefficients serves the whole strip, or every lane has a unit of its own and vector i
// takes set i mod `columns`. Sets lie in panels of PANEL, vector k of set j at [k * PITCH + j]: in
// the orders tried besides, prefetchers seem to run away with the loads.
//
// A strip returns whether some |x| lies above the limit; those elements are to be done again, one at
// a time, and backward has added nothing for them.
//
// FORM, M, N >= 0 are known to the compiler; -1 reads them at run time. PITCH is 1 for one set,
// or that of panels.
#pragma once
#include "philox.h"
#include "problem.h"
#include "vec.h"

namespace PADENET_ISA {

constexpr int PANEL = 16, PITCHED = 20;  // 20 lines keep the vectors of a set apart in the cache
constexpr int64_t PAGE = 4096;  // bytes fetched ahead: by itself the processor seems to stop there

inline int pitch_of(int64_t columns) { return columns > 1 ? PITCHED : 1; }

// How many vectors before set j, for sets of `vectors` vectors.
inline int64_t place(int64_t j, int64_t vectors, int64_t columns) {
  return j / PANEL * vectors * pitch_of(columns) + j % PANEL;
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <class IO>
struct Strip {
  using Elem = typename IO::Elem;
  using V = Vec<typename IO::Real>;
  const Elem *x, *dy;
  Elem* out;
  int64_t count, dy_step, columns;
  bool stream;      // store past the cache
  V limit;          // of |x|
  const V* sets;    // 2 K vectors each: coefficients, or what noise leaves of them, and the slopes
                    // of the noise
  uint64_t offset;  // of x[0] in the tensor
  const Problem* problem;
  const Keys* keys;
};

template <class IO>
__attribute__((always_inline)) inline void put(const Strip<IO>& s, int64_t i,
                                               typename Strip<IO>::V v) {
  typename IO::Elem* at = s.out + i * Lanes<typename IO::Real>::W;
  if (IO::CAN_STREAM && s.stream) IO::stream(at, v);
  else IO::store(at, v);
}

template <class Real>
inline bool any(typename Lanes<Real>::I mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask);
#else
  uint64_t words[BYTES / 8], found = 0;
  memcpy(words, &mask, BYTES);
  for (uint64_t word : words) found |= word;
  return found;
#endif
}

// The coefficients of one vector, as they are asked for: c(k) is a_0 .. a_m, then d_0 .. d_n.
template <class IO, int FORM, int M, int N, bool NOISE, int PITCH>
struct Coefficients {
  using V = typename Strip<IO>::V;
  const Problem& p;
  const V* set;
  const Words* words;  // of the noise

  __attribute__((always_inline)) V operator()(int k) const {
    if (!NOISE) return set[k * PITCH];
    const int m = M >= 0 ? M : (int)p.m, n = N >= 0 ? N : (int)p.n, K = m + n + 2;
    const bool constant = (FORM >= 0 ? FORM : p.form) & CONSTANT;
    if (k == m + 1 && !constant) return V{};  // d_0 is 0 and has no noise
    const int slot = k <= m || constant ? k : k - 1;
    return noise(words + slot / A_DRAW * 4, slot % A_DRAW, typename IO::Real()) *
               set[(K + k) * PITCH] +
           set[k * PITCH];
  }
};

// The noise of some vectors, drawn before they need it, two in step.
struct Noise {
  static constexpr int ROOM = 32;  // draws
  Words words[ROOM][4];

  // `draws` each of `count` vectors from `offset` on, `step` elements apart. How many there was room
  // for.
  int64_t draw_ahead(const Problem& p, const Keys& keys, int64_t draws, uint64_t offset,
                     uint64_t step, int64_t count) {
    const int64_t fit = smaller(count, ROOM / 2 / draws * 2);
    for (int64_t i = 0; i < fit; i += 2)
      for (int64_t k = 0; k < draws; k++) {
        const uint64_t offsets[2] = {offset + i * step, offset + (i + 1) * step};
        Words* const to[2] = {words[i * draws + k], words[(i + 1) * draws + k]};
        draw<2>(p, keys, offsets, (uint32_t)k, to);
      }
    return fit;
  }
};

// How many draws the noise of one element takes.
constexpr int draws_of(int m, int n, int form) {
  return (m + n + 1 + bool(form & CONSTANT) + A_DRAW - 1) / A_DRAW;
}

}  // namespace PADENET_ISA
