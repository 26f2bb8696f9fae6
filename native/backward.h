// dx and the gradients of the coefficients along a strip.
#pragma once
#include "strip.h"

namespace PADENET_ISA {

constexpr bool ENOUGH_REGISTERS = BYTES == 64;       // for two vectors under way
constexpr int64_t ROWS = ENOUGH_REGISTERS ? 32 : 4;  // of short runs that are taken together
constexpr int64_t FETCH = 256;                       // vectors fetched ahead in those, at most

// P and P' for degree 5, A and A' for degree 4 without the constant term, from the powers of x. As
// P = a_0 + x u_1 and P' = u_1 + ... + u_5 the derivatives cost no multiplications.
template <class C, class V>
__attribute__((always_inline)) inline void quintic(const C& c, V x, V x2, V x3, V x4, V& P, V& dP) {
  const V u5 = c(5) * x4, u4 = c(4) * x3 + u5;
  const V u3 = c(3) * x2 + u4, u2 = c(2) * x + u3, u1 = u2 + c(1);
  P = u1 * x + c(0);
  dP = ((u5 + u4) + u3) + (u2 + u1);
}

template <class C, class V>
__attribute__((always_inline)) inline void quartic(const C& c, V z, V z2, V z3, V& A, V& dA) {
  const V u4 = c(10) * z3, u3 = c(9) * z2 + u4;
  const V u2 = c(8) * z + u3, u1 = u2 + c(7);
  A = u1 * z;
  dA = (u4 + u3) + (u2 + u1);
}

// Adds SIGN w x^(k - 1) to sum[k] for k = 1 .. n. A product and a sum a power, but for the last
// two, keep the multipliers and the adders equally busy; even and odd powers apart are two chains.
template <int SIGN, class V>
__attribute__((always_inline)) inline void add_moments(V* sum, int n, V w, V x) {
  const V x2 = x * x;
  V odd = w, even = w * x;
#pragma GCC unroll 4
  for (int k = 1; k <= n; k += 2) {
    if (k > 1) odd = k + 2 <= n ? keep(odd * x2) : odd * x2;
    sum[k] += SIGN > 0 ? odd : -odd;
    if (k == n) break;
    if (k > 1) even *= x2;
    even = k + 3 <= n ? keep(even) : even;
    sum[k + 1] += SIGN > 0 ? even : -even;
  }
}

// Adds dF/da_j and dF/dd_k of every element, times dy, to sums, lane by lane: K vectors a set, laid
// out as the sets are. Far elements add nothing.
template <class IO, int FORM, int M, int N, bool NOISE, int PITCH>
bool backward_strip(const Strip<IO>& strip, Vec<typename IO::Real>* sums) {
  using Real = typename IO::Real;
  using V = Vec<Real>;
  const Strip<IO> s = strip;  // a copy that no store can change
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const int form = FORM >= 0 ? FORM : (int)s.problem->form;
  const int K = m + n + 2, W = Lanes<Real>::W, draws = draws_of(m, n, form);
  constexpr bool paper = M == 5 && N == 4 && ENOUGH_REGISTERS;
  using C = Coefficients<IO, FORM, M, N, NOISE, PITCH>;
  const V q = broadcast<Real>((Real)s.problem->q);
  const V limit = s.limit < 0 ? s.limit : s.limit * s.limit;  // of |x|^2; below 0 all lie above it
  V largest{};  // |x|^2
  V sum[M >= 0 ? M + N + 2 : MAX_COEFFICIENTS];
  Noise noise;
  const int64_t page = PAGE / (W * sizeof(typename IO::Elem));
  int64_t fetched = smaller(ROWS * s.columns, FETCH);
  auto positive = [&](V v) { return form & PER_TERM ? absolute<Real>(v) : v; };

  // A vector in two halves: up to the division, and from there on. Between them stands a half of
  // another vector, or the processor would wait for the division.
  struct Half {
    V x2, x3, A, dA, r;
  };
  auto start = [&](int64_t i, const C& c, bool careful) __attribute__((always_inline)) {
    if (!careful) {
      const int64_t next = PITCH > 1 ? fetched++ : i + page;
      __builtin_prefetch(s.x + next * W);
      __builtin_prefetch(s.dy + next * s.dy_step);
    }
    V x = IO::load(s.x + i * W);
    const V square = x * x;
    if (careful) x = square > limit ? V{} : x;
    else largest = square > largest ? square : largest;  // in this order NaN does not count
    const V x2 = x * x, x3 = x2 * x, z = positive(x);
    V A = c(m + 1 + n), dA{};
    if (paper) {
      quartic(c, z, x2, positive(x3), A, dA);
      if (form & CONSTANT) A += c(m + 1);
    } else {  // Horner with the derivative in one pass: A' = A' z + A, then A = A z + d_k
#pragma GCC unroll 4
      for (int k = n - 1; k >= 0; k--) dA = dA * z + A, A = A * z + c(m + 1 + k);
    }
    const V r = 1 / (q + (form & AROUND ? absolute<Real>(A) : A));
    return Half{x2, x3, A, dA, r};
  };
  auto finish = [&](int64_t i, const C& c, const Half& h,
                    bool careful) __attribute__((always_inline)) {
    V x = IO::load(s.x + i * W), g = IO::load(s.dy + i * s.dy_step);  // x again: a register less
    const auto far = x * x > limit;
    if (careful) g = far ? V{} : g, x = far ? V{} : x;
    const V x2 = h.x2, x3 = h.x3, x4 = x2 * x2, r = h.r;
    V P = c(m), dP{};
    if (paper) quintic(c, x, x2, x3, x4, P, dP);
    else
#pragma GCC unroll 8
      for (int j = m - 1; j >= 0; j--) dP = dP * x + P, P = P * x + c(j);
    if (careful) P = far ? V{} : P;  // a_0 / q may overflow, and infinity times 0 would stay
    const V sF = P * (form & (PER_TERM | AROUND) ? with_sign<Real>(r, form & PER_TERM ? x : h.A) : r);
    // In double, where powers reach 2^480, dy comes last: dy / Q may underflow where the products do
    // not. In float a product more is seen in the time, and powers that lift it end at 2^60.
    constexpr bool last = sizeof(Real) == 8;
    const V ga = g * r, gb = last ? g * (sF * r) : sF * ga;  // dy dF/da_0, -dy dF/dd_0
    const V top = dP - h.dA * sF;
    put(s, i, last ? g * (top * r) : ga * top);

    V* t = sum + m + 1;
    const V w = keep(ga * x), v = gb * x;  // dy dF/da_1, -dy dF/dd_1 (for PER_TERM too)
    sum[0] += ga;
    if (form & CONSTANT) t[0] -= form & PER_TERM ? (last ? g * (P * r * r) : P * r * ga) : gb;
    if (paper) {
      sum[1] += w, sum[2] += w * x, sum[3] += w * x2, sum[4] += w * x3, sum[5] += w * x4;
      t[1] -= v;
      if (form & PER_TERM) t[2] -= v * positive(x), t[3] -= v * x2, t[4] -= v * positive(x3);
      else t[2] -= gb * x2, t[3] -= gb * x3, t[4] -= gb * x4;
    } else {
      add_moments<1>(sum, m, w, x);
      add_moments<-1>(t, n, v, positive(x));
    }
  };
  auto clear = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int k = 0; k < K; k++) sum[k] = V{};
  };
  // The vectors first, first + step, ..., all with one set. Whether there were far ones.
  auto run = [&](int64_t first, int64_t end, int64_t step, const V* set,
                 V* to) __attribute__((always_inline)) {
    auto coefficients = [&](int64_t l) __attribute__((always_inline)) {
      return C{*s.problem, set, NOISE ? noise.words[l * draws] : nullptr};
    };
    auto draw_at = [&](int64_t i, int64_t most) __attribute__((always_inline)) {
      if (!NOISE) return most;
      return noise.draw_ahead(*s.problem, *s.keys, draws, s.offset + i * W, step * W, most);
    };
    clear();
    largest = V{};
    for (int64_t i = first, count; i < end; i += count * step) {
      count = draw_at(i, (end - i + step - 1) / step);
      if (!ENOUGH_REGISTERS) {
        for (int64_t l = 0; l < count; l++) {
          const Half h = start(i + l * step, coefficients(l), false);
          finish(i + l * step, coefficients(l), h, false);
        }
        continue;
      }
      Half h = start(i, coefficients(0), false);
      for (int64_t l = 1; l < count; l++) {
        const Half next = start(i + l * step, coefficients(l), false);
        finish(i + (l - 1) * step, coefficients(l - 1), h, false);
        h = next;
      }
      finish(i + (count - 1) * step, coefficients(count - 1), h, false);
    }
    const bool far = any<Real>(largest > limit);
    if (far) {
      clear();
      for (int64_t i = first; i < end; i += step) {
        draw_at(i, 1);
        finish(i, coefficients(0), start(i, coefficients(0), true), true);
      }
    }
#pragma GCC unroll 16
    for (int k = 0; k < K; k++) to[k * PITCH] += sum[k];
    return far;
  };

  if (PITCH == 1) return run(0, s.count, 1, s.sets, sums);
  bool far = false;
  for (int64_t i = 0; i < s.count; i += ROWS * s.columns) {
    const int64_t end = smaller(i + ROWS * s.columns, s.count);
    for (int64_t j = 0; j < smaller(s.columns, end - i); j++)
      far |= run(i + j, end, s.columns, s.sets + place(j, 2 * K, s.columns),
                 sums + place(j, K, s.columns));
  }
  return far;
}

}  // namespace PADENET_ISA
