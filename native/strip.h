// The inner loops: `count` vectors at equal distances that share their coefficients.
//
// Formula: padenet/reference.py. c holds a_0 .. a_m, then d_0 .. d_n, a vector each, equal in all
// lanes or one unit a lane; d_0 is 0 but for the offset form, and d_k is |b_k| for abs_terms.
// Each strip returns whether some |x| lies above its limit: those elements, and for backward the
// sums, are then to be done again, one at a time.
//
// M, N >= 0 are degrees known to the compiler, which then keeps the sums in registers; -1 reads
// them at run time.
#pragma once
#include "philox.h"
#include "problem.h"
#include "vec.h"

namespace PADENET_ISA {

template <class IO>
struct Strip {
  using Elem = typename IO::Elem;
  using V = Vec<typename IO::Real>;
  const Elem *x, *dy;
  Elem* out;
  int64_t count, step, dy_step, ahead;  // ahead: how far to prefetch, 0 for not at all
  uint64_t offset;  // of x[0] in the tensor
  const V* c;       // coefficients, or what noise leaves of them
  const V* noise_slope;
  V limit;
  const Problem* problem;
  const Keys* keys;
};

template <class Real>
inline bool any(typename Lanes<Real>::I mask) {
  bool found = false;
  for (int i = 0; i < Lanes<Real>::W; i++) found |= mask[i] != 0;
  return found;
}

// Coefficients with the noise of the W elements at `offset`.
template <class IO, int FORM, int M, int N>
inline void add_noise(const Strip<IO>& s, uint64_t offset, typename Strip<IO>::V* c) {
  using Real = typename IO::Real;
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const int count = m + 1 + n + (FORM == OFFSET);
  typename Lanes<Real>::U words[4];
  if (FORM != OFFSET) c[m + 1] = typename Strip<IO>::V{};
#pragma GCC unroll 16
  for (int i = 0; i < count; i++) {
    if (i % A_DRAW == 0) draw(*s.problem, *s.keys, offset, i / A_DRAW, words);
    const int k = i <= m || FORM == OFFSET ? i : i + 1;  // without d_0, which has no noise
    c[k] = noise<Real>(words, i % A_DRAW) * s.noise_slope[k] + s.c[k];
  }
}

template <class IO, int FORM, int M, int N, bool NOISE>
bool forward_strip(const Strip<IO>& strip) {
  const Strip<IO> s = strip;  // a copy that stores can't change
  using Real = typename IO::Real;
  using V = Vec<Real>;
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const V q = broadcast<Real>((Real)s.problem->q);
  typename Lanes<Real>::I far{};
  V noisy[NOISE ? (M >= 0 ? M + N + 2 : MAX_COEFFICIENTS) : 1];

  for (int64_t i = 0; i < s.count; i++) {
    const V* c = s.c;
    if (NOISE) {
      add_noise<IO, FORM, M, N>(s, s.offset + i * s.step, noisy);
      c = noisy;
    }
    const V *a = c, *d = c + m + 1;
    const auto* at = s.x + i * s.step;
    if (s.ahead) __builtin_prefetch(at + s.ahead), __builtin_prefetch(s.out + i * s.step + s.ahead, 1);
    const V x = IO::load(at);
    const V z = FORM == ABS_TERMS ? absolute<Real>(x) : x;
    far |= absolute<Real>(x) > s.limit;

    V P = a[m], A = d[n];
#pragma GCC unroll 8
    for (int j = m - 1; j >= 0; j--) P = P * x + a[j];
#pragma GCC unroll 8
    for (int k = n - 1; k >= 1; k--) A = A * z + d[k];
    if (n > 0) A = FORM == OFFSET ? A * z + d[0] : A * z;
    const V Q = q + (FORM == FREE || FORM == ABS_TERMS ? A : absolute<Real>(A));
    IO::store(s.out + i * s.step, P / Q);
  }
  return any<Real>(far);
}

// Adds dF/da_j and dF/dd_k of every element, times dy, to sums[0 .. m + 1 + n] lane by lane.
template <class IO, int FORM, int M, int N, bool NOISE>
bool backward_strip(const Strip<IO>& strip, Vec<typename IO::Real>* sums) {
  const Strip<IO> s = strip;
  using Real = typename IO::Real;
  using V = Vec<Real>;
  constexpr bool FIXED = M >= 0;
  const int m = FIXED ? M : (int)s.problem->m, n = FIXED ? N : (int)s.problem->n;
  const V q = broadcast<Real>((Real)s.problem->q);
  typename Lanes<Real>::I far{};
  V noisy[NOISE ? (FIXED ? M + N + 2 : MAX_COEFFICIENTS) : 1];
  V registers[FIXED ? M + N + 2 : 1] = {};
  V* sum = FIXED ? registers : sums;

  for (int64_t i = 0; i < s.count; i++) {
    const V* c = s.c;
    if (NOISE) {
      add_noise<IO, FORM, M, N>(s, s.offset + i * s.step, noisy);
      c = noisy;
    }
    const V *a = c, *d = c + m + 1;
    const auto *at = s.x + i * s.step, *dy = s.dy + i * s.dy_step;
    auto* out = s.out + i * s.step;
    if (s.ahead)
      __builtin_prefetch(at + s.ahead), __builtin_prefetch(dy + s.ahead),
          __builtin_prefetch(out + s.ahead, 1);
    const V x = IO::load(at), g = IO::load(dy);
    const V z = FORM == ABS_TERMS ? absolute<Real>(x) : x;
    far |= absolute<Real>(x) > s.limit;

    // Horner for a polynomial and its derivative in one pass: dP = dP x + P, then P = P x + a_j.
    V P = a[m], dP{}, A = d[n], dA{};
    if (m > 0) dP = P, P = P * x + a[m - 1];
#pragma GCC unroll 8
    for (int j = m - 2; j >= 0; j--) dP = dP * x + P, P = P * x + a[j];
    if (n > 0) dA = A, A = n > 1 || FORM == OFFSET ? A * z + d[n - 1] : A * z;
#pragma GCC unroll 8
    for (int k = n - 2; k >= 1; k--) dA = dA * z + A, A = A * z + d[k];
    if (n > 1) dA = dA * z + A, A = FORM == OFFSET ? A * z + d[0] : A * z;

    const V r = 1 / (q + (FORM == FREE || FORM == ABS_TERMS ? A : absolute<Real>(A)));
    const V F = P * r, gr = g * r;
    const V sF = FORM == FREE ? F : times_sign<Real>(F, FORM == ABS_TERMS ? x : A);
    IO::store(out, g * ((dP - dA * sF) * r));

    const V gs = (FORM == ABS_TERMS ? F : sF) * gr;
    sum[0] += gr;
    V power = x;
#pragma GCC unroll 8
    for (int j = 1; j <= m; j++) {
      sum[j] += gr * power;
      if (j < m) power = power * x;
    }
    if (FORM == OFFSET) sum[m + 1] -= gs;
    power = z;
#pragma GCC unroll 8
    for (int k = 1; k <= n; k++) {
      sum[m + 1 + k] -= gs * power;
      if (k < n) power = power * z;
    }
  }
  if (FIXED)
    for (int k = 0; k <= m + 1 + n; k++) sums[k] += registers[k];
  return any<Real>(far);
}

}  // namespace PADENET_ISA
