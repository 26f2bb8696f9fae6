// One element at a time, for arguments so large that powers overflow.
//
// The formula of padenet/core/formula.py over a number type: double where the powers fit into it, and
// Big, a double with a 64-bit exponent, where they don't. As Big, infinity is 2^(2^40): sums keep
// the leading terms, quotients cancel, and what remains is the limit.
#pragma once
#include <cmath>

#include "problem.h"

namespace PADENET_ISA {

struct Big {
  double f = 0;   // 0, not finite, or 0.5 <= |f| < 1
  int64_t e = 0;  // value f * 2^e

  Big() = default;
  Big(double v, int64_t exponent = 0) {
    if (std::isinf(v)) v = v > 0 ? 1 : -1, exponent = int64_t(1) << 40;
    int shift = 0;
    f = std::frexp(v, &shift);
    e = f == 0 || f != f ? 0 : exponent + shift;
  }
  explicit operator double() const {
    int64_t clamped = e > 2000 ? 2000 : e < -2000 ? -2000 : e;
    return std::ldexp(f, (int)clamped);
  }
};

inline Big operator*(Big a, Big b) { return Big(a.f * b.f, a.e + b.e); }
inline Big operator/(Big a, Big b) {
  if (b.f == 0) return Big(a.f / b.f);
  return Big(a.f / b.f, a.e - b.e);
}
inline Big operator+(Big a, Big b) {
  if (a.f == 0 || b.f != b.f) return b;
  if (b.f == 0 || a.f != a.f) return a;
  if (a.e < b.e) return b + a;
  int64_t gap = a.e - b.e;
  return gap > 1100 ? a : Big(a.f + std::ldexp(b.f, -(int)gap), a.e);
}
inline Big operator-(Big a) {
  a.f = -a.f;
  return a;
}
inline Big operator-(Big a, Big b) { return a + -b; }

inline double sign(double v) { return v > 0 ? 1 : v < 0 ? -1 : v == 0 ? 0 : v; }
inline double sign(Big v) { return sign(v.f); }

// F and its derivatives at x; c holds a_0 .. a_m, then d_0 .. d_n (|b_k| for abs_terms).
template <class R>
struct Point {
  R x, z, F, slope, da, db;  // da: dF/da_0; db: dF/dd_0; those of power k are x^k (z^k) times it

  Point(double at, const double* c, const Problem& p)
      : x(at), z(p.form & PER_TERM ? std::fabs(at) : at), F(0), slope(0), da(0), db(0) {
    const double *a = c, *d = c + p.m + 1;
    R P(a[p.m]), dP(0), A(d[p.n]), dA(0);
    for (int64_t j = p.m - 1; j >= 0; j--) dP = dP * x + P, P = P * x + R(a[j]);
    for (int64_t k = p.n - 1; k >= 0; k--) dA = dA * z + A, A = A * z + R(d[k]);
    double s = p.form & AROUND ? sign(A) : 1;
    R Q = R(p.q) + R(s) * A;
    F = P / Q;
    R sF = R(p.form & PER_TERM ? sign(at) : s) * F;
    slope = (dP - dA * sF) / Q;
    da = R(1) / Q;
    db = -(R(s) * F / Q);
  }

  // Adds the gradients of the coefficients to sums and returns that of x.
  template <class Sum>
  double gradients(double g, const Problem& p, Sum* sums) const {
    R v = R(g) * da;
    for (int64_t j = 0; j <= p.m; j++, v = v * x) sums[j] = sums[j] + Sum(v);
    v = R(g) * db;
    for (int64_t k = 0; k <= p.n; k++, v = v * z) sums[p.m + 1 + k] = sums[p.m + 1 + k] + Sum(v);
    return (double)(R(g) * slope);
  }
};

inline int exponent_of(double v) {
  int e = 0;
  std::frexp(v, &e);
  return e;
}

// The exponent of the largest sum of |coefficients| that P, Q or a derivative can make of powers.
inline int scale_of(const double* c, const Problem& p, bool* finite) {
  const double small = 0x1p-10;  // or the sums might overflow
  double top = small * std::fabs(c[0]), bottom = small;
  for (int64_t j = 1; j <= p.m; j++) top += small * j * std::fabs(c[j]);
  for (int64_t k = 0; k <= p.n; k++) bottom += small * (k ? k : 1) * std::fabs(c[p.m + 1 + k]);
  double both = top > bottom ? top : bottom;
  *finite = top - top == 0 && bottom - bottom == 0;
  return exponent_of(both) + 10;
}

inline int64_t highest_power(const Problem& p) {
  int64_t d = p.m > p.n ? p.m : p.n;
  return d > 1 ? d : 1;
}

// Below this |x| the vector code, with `room` bits of exponent, is far from overflow. A' F is a
// product of two such numbers over q.
inline double direct_limit(const double* c, const Problem& p, int room) {
  bool finite;
  int spare = room - exponent_of(1 / p.q) / 2 - scale_of(c, p, &finite);
  if (!finite) return INFINITY;  // nothing to save: NaN and infinity come out by themselves
  if (spare < 0) return -1;  // not even 0
  return std::ldexp(1.0, (int)(spare / highest_power(p)));
}

inline bool fits_double(double x, const double* c, const Problem& p) {
  bool finite;
  int scale = scale_of(c, p, &finite);
  const int64_t e = exponent_of(x);  // below 0 the lowest terms are the largest
  return x - x == 0 && (e > 0 ? e : 0) * highest_power(p) + scale < 400;
}

inline double exact_forward(double x, const double* c, const Problem& p) {
  return fits_double(x, c, p) ? Point<double>(x, c, p).F : (double)Point<Big>(x, c, p).F;
}

inline double exact_backward(double g, double x, const double* c, const Problem& p, double* sums) {
  if (fits_double(x, c, p) && exponent_of(g) < 500)
    return Point<double>(x, c, p).gradients(g, p, sums);
  return Point<Big>(x, c, p).gradients(g, p, sums);
}

// With sums in which terms may cancel that overflow one by one.
inline double exact_backward(double g, double x, const double* c, const Problem& p, Big* sums) {
  return Point<Big>(x, c, p).gradients(g, p, sums);
}

}  // namespace PADENET_ISA
