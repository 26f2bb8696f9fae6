// The inner loops: `count` vectors side by side.
//
// Formula: padenet/reference.py. The coefficients a_0 .. a_m, d_0 .. d_n are a vector each. d_0 is 0
// but for the offset form, and d_k is |b_k| for abs_terms.
//
// One set of coefficients serves the whole strip, or every lane has a unit of its own and vector i
// takes set i mod `columns`. Sets lie in panels of PANEL, vector k of set j at [k * PITCH + j]: in
// the orders tried besides, prefetchers seem to run away with the loads.
//
// A strip returns whether some |x| lies above the limit; those elements are to be done again, one at
// a time. A careful backward strip adds nothing for them; one that is not has then added nothing at
// all, and is to be done again carefully.
//
// FORM, M, N >= 0 are known to the compiler; -1 reads them at run time. PITCH is 1 for one set,
// or that of panels.
#pragma once
#include "philox.h"
#include "problem.h"
#include "vec.h"

namespace PADENET_ISA {

constexpr int PANEL = 16, PITCHED = 20;  // 20 lines keep the vectors of a set apart in the cache
constexpr int ROWS = 4;  // that backward takes together, to add up less often

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
  bool found = false;
  for (int i = 0; i < Lanes<Real>::W; i++) found |= mask[i] != 0;
  return found;
}

// Coefficients with the noise of the W elements at `offset`.
template <class IO, int FORM, int M, int N, int PITCH>
__attribute__((always_inline)) inline void add_noise(const Strip<IO>& s, uint64_t offset,
                                                     const typename Strip<IO>::V* set,
                                                     typename Strip<IO>::V* c) {
  using Real = typename IO::Real;
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const int form = FORM >= 0 ? FORM : (int)s.problem->form;
  const int K = m + n + 2, count = K - (form != OFFSET);
  typename Lanes<Real>::U words[4];
  if (form != OFFSET) c[m + 1] = typename Strip<IO>::V{};
  for (int first = 0; first < count; first += A_DRAW) {
    draw(*s.problem, *s.keys, offset, first / A_DRAW, words);
#pragma GCC unroll 10
    for (int slot = 0; slot < A_DRAW; slot++) {
      const int i = first + slot, k = i <= m || form == OFFSET ? i : i + 1;  // d_0 has no noise
      if (i < count) c[k] = noise(words, slot) * set[(K + k) * PITCH] + set[k * PITCH];
    }
  }
}

// Room for K coefficients or sums: as many as there are, or as there may be.
constexpr int room(int M, int N, bool needed = true) {
  return !needed ? 1 : M >= 0 ? M + N + 2 : MAX_COEFFICIENTS;
}

template <class IO, int FORM, int M, int N, bool NOISE, int PITCH>
bool forward_strip(const Strip<IO>& strip) {
  using Real = typename IO::Real;
  using V = Vec<Real>;
  const Strip<IO> s = strip;  // a copy that no store can change
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const int form = FORM >= 0 ? FORM : (int)s.problem->form;
  const int K = m + n + 2, W = Lanes<Real>::W;
  const V q = broadcast<Real>((Real)s.problem->q), limit = s.limit;
  typename Lanes<Real>::I far{};
  V noisy[room(M, N, NOISE)];

  auto vector = [&](int64_t i, const V* set) __attribute__((always_inline)) {
    const V* c = set;
    if (NOISE) add_noise<IO, FORM, M, N, PITCH>(s, s.offset + i * W, set, noisy), c = noisy;
    constexpr int by = NOISE ? 1 : PITCH;
    const V *a = c, *d = c + (m + 1) * by;
    const V x = IO::load(s.x + i * W);
    const V z = form == ABS_TERMS ? absolute<Real>(x) : x;
    far |= absolute<Real>(x) > limit;

    V P = a[m * by], A = d[n * by];
#pragma GCC unroll 8
    for (int j = m - 1; j >= 0; j--) P = P * x + a[j * by];
#pragma GCC unroll 8
    for (int k = n - 1; k >= 1; k--) A = A * z + d[k * by];
    if (n > 0) A = form == OFFSET ? A * z + d[0] : A * z;
    const V Q = q + (form == FREE || form == ABS_TERMS ? A : absolute<Real>(A));
    put(s, i, P / Q);
  };

  if (PITCH == 1) {
    for (int64_t i = 0; i < s.count; i++) vector(i, s.sets);
  } else {
    for (int64_t i = 0; i < s.count; i += s.columns)
      for (int64_t j = 0; j < smaller(s.columns, s.count - i); j += PANEL) {
        const V* sets = s.sets + place(j, 2 * K, s.columns);
        const int64_t in_panel = smaller(PANEL, smaller(s.columns, s.count - i) - j);
        for (int64_t l = 0; l < in_panel; l++) vector(i + j + l, sets + l);
      }
  }
  return any<Real>(far);
}

// P and P' for degree 5: even and odd powers apart, which shortens the chain of operations.
template <int BY, class V>
__attribute__((always_inline)) inline void quintic(const V* a, V x, V& P, V& dP) {
  const V y = x * x, e = a[4 * BY] * y + a[2 * BY], o = a[5 * BY] * y + a[3 * BY];
  const V odd = o * y + a[BY];
  P = odd * x + (e * y + a[0]);
  dP = (x + x) * ((a[5 * BY] * y + o) * x + (a[4 * BY] * y + e)) + odd;
}

// A and A' for degree 4, without the constant term.
template <int BY, class V>
__attribute__((always_inline)) inline void quartic(const V* d, V z, V& A, V& dA) {
  const V y = z * z, e = d[4 * BY] * y + d[2 * BY], odd = d[3 * BY] * y + d[BY];
  A = e * y + odd * z;
  dA = (z + z) * (d[3 * BY] * z + (d[4 * BY] * y + e)) + odd;
}

// Adds SIGN w x^k to sum[k] for k = 1 .. n. A product and a sum a power, but for the last two, keep
// the multipliers and the adders equally busy; even and odd powers apart are two short chains.
template <int SIGN, class V>
__attribute__((always_inline)) inline void add_moments(V* sum, int n, V w, V x) {
  const V x2 = x * x;
  V even = w, odd = w * x;
  if (n > 2) odd = keep(odd);
  if (n > 0) sum[1] += SIGN > 0 ? odd : -odd;
#pragma GCC unroll 4
  for (int k = 2; k <= n; k += 2) {
    even = k + 1 < n ? keep(even * x2) : even * x2;
    sum[k] += SIGN > 0 ? even : -even;
    if (k == n) break;
    odd = k + 2 < n ? keep(odd * x2) : odd * x2;
    sum[k + 1] += SIGN > 0 ? odd : -odd;
  }
}

// Adds dF/da_j and dF/dd_k of every element, times dy, to sums, lane by lane: K vectors a set, laid
// out as the sets are.
template <class IO, int FORM, int M, int N, bool NOISE, int PITCH, bool CAREFUL>
bool backward_strip(const Strip<IO>& strip, Vec<typename IO::Real>* sums) {
  using Real = typename IO::Real;
  using V = Vec<Real>;
  const Strip<IO> s = strip;  // a copy that no store can change
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const int form = FORM >= 0 ? FORM : (int)s.problem->form;
  const int K = m + n + 2, W = Lanes<Real>::W;
  const V q = broadcast<Real>((Real)s.problem->q);
  const V limit = s.limit < 0 ? s.limit : s.limit * s.limit;  // of |x|^2; below 0 all lie above it
  V largest{};  // |x|^2
  V noisy[room(M, N, NOISE)], sum[room(M, N)];

  auto vector = [&](int64_t i, const V* set) __attribute__((always_inline)) {
    const V* c = set;
    if (NOISE) add_noise<IO, FORM, M, N, PITCH>(s, s.offset + i * W, set, noisy), c = noisy;
    constexpr int by = NOISE ? 1 : PITCH;
    const V *a = c, *d = c + (m + 1) * by;
    V x = IO::load(s.x + i * W), g = IO::load(s.dy + i * s.dy_step);
    const V square = x * x;
    largest = square > largest ? square : largest;  // in this order NaN does not count
    if (CAREFUL) x = square > limit ? V{} : x, g = square > limit ? V{} : g;
    const V z = form == ABS_TERMS ? absolute<Real>(x) : x;

    V P = a[m * by], dP{}, A = d[n * by], dA{};
    if (M == 5 && N == 4) {
      quintic<by>(a, x, P, dP);
      quartic<by>(d, z, A, dA);
      if (form == OFFSET) A += d[0];
    } else {  // Horner with the derivative in one pass: dP = dP x + P, then P = P x + a_j
      for (int j = m - 1; j >= 0; j--) dP = dP * x + P, P = P * x + a[j * by];
      for (int k = n - 1; k >= 0; k--) dA = dA * z + A, A = A * z + d[k * by];
    }
    const V r = 1 / (q + (form == FREE || form == ABS_TERMS ? A : absolute<Real>(A)));
    const V F = P * r;
    const V sF = form == FREE ? F : times_sign<Real>(F, form == ABS_TERMS ? x : A);
    V ga = g * r, gb = (form == ABS_TERMS ? F : sF) * ga;  // dy dF/da_0, -dy dF/dd_0
    put(s, i, ga * (dP - dA * sF));

    sum[0] += ga;
    add_moments<1>(sum, m, ga, x);
    if (form == OFFSET) sum[m + 1] -= gb;
    add_moments<-1>(sum + m + 1, n, gb, z);
  };
  auto clear = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int k = 0; k < K; k++) sum[k] = V{};
  };
  auto add_to = [&](V* to) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int k = 0; k < K; k++) to[k * PITCH] += sum[k];
  };

  if (PITCH == 1) {
    clear();
    for (int64_t i = 0; i < s.count; i++) vector(i, s.sets);
    const bool found = any<Real>(largest > limit);
    if (CAREFUL || !found) add_to(sums);
    return found;
  }
  // ROWS rows at once, unrolled, so that each load has a stream of its own; then those left over.
  int64_t i = 0;
  for (; i + ROWS * s.columns <= s.count; i += ROWS * s.columns)
    for (int64_t j = 0; j < s.columns; j++) {
      clear();
      const V* set = s.sets + place(j, 2 * K, s.columns);
#pragma GCC unroll 4
      for (int l = 0; l < ROWS; l++) vector(i + j + l * s.columns, set);
      add_to(sums + place(j, K, s.columns));
    }
  for (int64_t j = 0; i < s.count; i++, j = j + 1 < s.columns ? j + 1 : 0) {
    clear();
    vector(i, s.sets + place(j, 2 * K, s.columns));
    add_to(sums + place(j, K, s.columns));
  }
  return any<Real>(largest > limit);
}

}  // namespace PADENET_ISA
