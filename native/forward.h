// y = P(x) / Q(x) along a strip.
#pragma once
#include "strip.h"

namespace PADENET_ISA {

template <class IO, int FORM, int M, int N, bool NOISE, int PITCH>
bool forward_strip(const Strip<IO>& strip) {
  using Real = typename IO::Real;
  using V = Vec<Real>;
  const Strip<IO> s = strip;  // a copy that no store can change
  const int m = M >= 0 ? M : (int)s.problem->m, n = N >= 0 ? N : (int)s.problem->n;
  const int form = FORM >= 0 ? FORM : (int)s.problem->form;
  const int K = m + n + 2, W = Lanes<Real>::W, draws = draws_of(m, n, form);
  const int64_t page = PAGE / (W * sizeof(typename IO::Elem));
  const V q = broadcast<Real>((Real)s.problem->q), limit = s.limit;
  V largest{};  // |x|
  Noise noise;
  using C = Coefficients<IO, FORM, M, N, NOISE, PITCH>;

  auto vector = [&](int64_t i, const C& c) __attribute__((always_inline)) {
    const int d = m + 1;
    __builtin_prefetch(s.x + (i + page) * W);
    const V x = IO::load(s.x + i * W);
    const V z = form & PER_TERM ? absolute<Real>(x) : x;
    const V size = keep(absolute<Real>(x));  // fused with the choice it would take two more steps
    largest = size > largest ? size : largest;  // in this order NaN does not count

    V P = c(m), A = c(d + n);
#pragma GCC unroll 8
    for (int j = m - 1; j >= 0; j--) P = P * x + c(j);
#pragma GCC unroll 8
    for (int k = n - 1; k >= 1; k--) A = A * z + c(d + k);
    if (n > 0) A = form & CONSTANT ? A * z + c(d) : A * z;
    const V Q = q + (form & AROUND ? absolute<Real>(A) : A);
    const V F = P / Q;
    put(s, i, m + n > 0 ? F : x == x ? F : x);  // a constant has no x in it, and NaN must stay
  };
  // `count` vectors from i on; with the sets side by side, or all with one.
  auto run = [&](int64_t i, int64_t count, const V* sets) __attribute__((always_inline)) {
    for (int64_t fit; count > 0; i += fit, count -= fit) {
      fit = count;
      if (NOISE) fit = noise.draw_ahead(*s.problem, *s.keys, draws, s.offset + i * W, W, count);
      for (int64_t l = 0; l < fit; l++, sets += PITCH > 1)
        vector(i + l, {*s.problem, sets, NOISE ? noise.words[l * draws] : nullptr});
    }
  };

  if (PITCH == 1) {
    run(0, s.count, s.sets);
  } else {
    for (int64_t i = 0; i < s.count; i += s.columns)
      for (int64_t j = 0; j < smaller(s.columns, s.count - i); j += PANEL)
        run(i + j, smaller(PANEL, smaller(s.columns, s.count - i) - j),
            s.sets + place(j, 2 * K, s.columns));
  }
  return any<Real>(largest > limit);
}

}  // namespace PADENET_ISA
