// The largest step that each unit may take: see steps.h. Each row by itself, so the bits are the
// same for any number of threads.
#pragma once
#include <cmath>
#include <cstring>

#include "arrays.h"
#include "steps.h"

namespace PADENET_ISA {

struct Holder {
  using V = Vec<double>;
  static constexpr int W = Lanes<double>::W;
  static constexpr int64_t PARALLEL = 64;  // rows that are worth waking threads for

  const Hold& h;
  const int64_t vectors = h.points / W;

  static V at(const double* p, int64_t v) { return AsF64::load(p + v * W); }
  static V larger(V x, V y) { return x > y ? x : y; }  // y where x is NaN
  static double largest(V v) {
    double found = v[0];
    for (int i = 1; i < W; i++) found = v[i] > found ? v[i] : found;
    return found;
  }

  // The sum of c_k x^k over the terms of a grid, or of their absolute values.
  V sum(const double* c, int64_t terms, const double* grid, int64_t v, bool absolutes = false) {
    V s{};
    for (int64_t k = 0; k < terms; k++) {
      const V term = c[k] * at(grid + k * h.points, v);
      s += absolutes ? absolute<double>(term) : term;
    }
    return s;
  }

  V denominator(const double* b, int64_t v) {
    const V A = sum(b, h.terms_b, h.grid_b, v, h.form & PER_TERM);
    if (!(h.form & AROUND)) return 1 + A;
    return h.q + absolute<double>(A);
  }

  // max of weight |x^k| over the points.
  double reach(const V* weight, const double* powers) {
    V found{};
    for (int64_t v = 0; v < vectors; v++)
      found = larger(weight[v] * absolute<double>(at(powers, v)), found);
    return largest(found);
  }

  void row(int64_t r) {
    double a[MAX_COEFFICIENTS], b[MAX_COEFFICIENTS], da[MAX_COEFFICIENTS], db[MAX_COEFFICIENTS];
    V P[MAX_POINTS / W], dP[MAX_POINTS / W], F[MAX_POINTS / W], wa[MAX_POINTS / W],
        wb[MAX_POINTS / W];
    void *const to_a = h.addresses[2 * r], *const to_b = h.addresses[2 * r + 1];
    for (int64_t k = 0; k < h.terms_a; k++) {
      a[k] = read(h.old_a, h.dtype, r * h.terms_a + k);
      da[k] = read(to_a, h.dtype, k) - a[k];
    }
    for (int64_t k = 0; k < h.terms_b; k++) {
      b[k] = read(h.old_b, h.dtype, r * h.terms_b + k);
      db[k] = read(to_b, h.dtype, k) - b[k];
    }
    for (int64_t v = 0; v < vectors; v++) {
      const V Q = denominator(b, v), w = at(h.weight, v);
      P[v] = sum(a, h.terms_a, h.grid_a, v);
      F[v] = P[v] / Q;
      wa[v] = w / absolute<double>(Q);
      wb[v] = w * absolute<double>(F[v] / Q);
    }
    for (int64_t k = 0; k < h.terms_a; k++)
      da[k] /= fmax(reach(wa, h.grid_a + k * h.points) / h.at_most, 1.0);
    for (int64_t k = 0; k < h.terms_b; k++)
      db[k] /= fmax(reach(wb, h.grid_b + k * h.points) / h.at_most, 1.0);
    for (int64_t v = 0; v < vectors; v++) dP[v] = sum(da, h.terms_a, h.grid_a, v);
    const double t = shorten(b, db, P, dP, F);
    bool cut = t < 1;
    if (t > 0) {
      for (int64_t k = 0; k < h.terms_a; k++) a[k] += t * da[k];
      for (int64_t k = 0; k < h.terms_b; k++) b[k] += t * db[k];
    }
    if (const double least = h.least[r]; h.terms_b && least != 0) {
      const int64_t last = h.terms_b - 1;
      const double sign = std::copysign(1.0, least), missing = (least - b[last]) * sign;
      if (missing > 0) {
        for (int64_t v = 0; v < vectors; v++) wb[v] *= at(h.inside, v);
        const double rate = reach(wb, h.grid_b + last * h.points);
        b[last] += fmin(missing, h.most / fmax(rate, 1e-30)) * sign;
        cut = true;
      }
    }
    for (int64_t k = 0; k < h.terms_a; k++) write(to_a, h.dtype, k, a[k]);
    for (int64_t k = 0; k < h.terms_b; k++) write(to_b, h.dtype, k, b[k]);
    h.steps[r]++;
    h.held[r] += cut;
    if (cut && !h.since[r]) h.since[r] = h.steps[r];
  }

  // The part of the step that may be taken.
  double shorten(const double* b, const double* db, const V* P, const V* dP, const V* F) {
    double t = 1, moved_b[MAX_COEFFICIENTS];
    for (int64_t i = 0; i < h.cuts; i++) {
      for (int64_t k = 0; k < h.terms_b; k++) moved_b[k] = b[k] + t * db[k];
      V move{}, sound{};
      for (int64_t v = 0; v < vectors; v++) {
        const V m = at(h.weight, v) *
                    absolute<double>((P[v] + t * dP[v]) / denominator(moved_b, v) - F[v]);
        move = larger(m, move);
        sound += m * 0;  // NaN where m is not finite
      }
      double finite = 0;
      for (int j = 0; j < W; j++) finite += sound[j];
      const double furthest = largest(move);
      if (finite == 0 && furthest <= h.most) return t;
      const double wanted = finite == 0 ? 0.99 * h.most / furthest : h.least_cut;
      t *= fmin(fmax(wanted, h.least_cut), 0.99);
    }
    return 0;
  }
};

void remember(const Hold& h) {
  const int64_t size = h.dtype == F64 ? 8 : h.dtype == F32 ? 4 : 2;
  for (int64_t r = 0; r < h.rows; r++) {
    const auto keep = [&](void* old, int64_t terms, const void* now) {
      if (terms) memcpy(static_cast<char*>(old) + r * terms * size, now, terms * size);
    };
    keep(h.old_a, h.terms_a, h.addresses[2 * r]);
    keep(h.old_b, h.terms_b, h.addresses[2 * r + 1]);
  }
}

void hold(const Hold& h) {
#pragma omp parallel for num_threads(h.threads) if (h.rows >= Holder::PARALLEL)
  for (int64_t r = 0; r < h.rows; r++) Holder{h}.row(r);
}

}  // namespace PADENET_ISA
