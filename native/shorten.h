// Gradients that are suddenly much larger than usual are shortened: see steps.h.
//
// Squares are summed lane by lane in double, in pieces of a fixed length that are added in order:
// the same bits for any number of threads.
#pragma once
#include <cmath>

#include "arrays.h"
#include "steps.h"

namespace PADENET_ISA {

constexpr int64_t PIECE = 1 << 16;  // elements
constexpr int64_t WORTH_THREADS = 1 << 18;

template <class IO>
double sum_of_squares(const void* values, int64_t from, int64_t to) {
  constexpr int W = Lanes<typename IO::Real>::W;
  const auto* p = static_cast<const typename IO::Elem*>(values);
  Doubles<W> sums{};
  int64_t i = from;
  for (; i + W <= to; i += W) {
    const auto x = __builtin_convertvector(IO::load(p + i), Doubles<W>);
    sums += x * x;
  }
  double rest = 0;
  for (; i < to; i++) {
    const double x = IO::get(element(p + i));
    rest += x * x;
  }
  return sum_of_lanes<W>(sums) + rest;
}

template <class IO>
void multiply(void* values, int64_t from, int64_t to, double factor) {
  using Real = typename IO::Real;
  constexpr int W = Lanes<Real>::W;
  auto* p = static_cast<typename IO::Elem*>(values);
  int64_t i = from;
  for (; i + W <= to; i += W) IO::store(p + i, IO::load(p + i) * (Real)factor);
  for (; i < to; i++)
    set_element(p + i, IO::put((Real)IO::get(element(p + i)) * (Real)factor));
}

inline double sum_of_squares(const Part& part, int64_t from, int64_t to) {
  switch (part.dtype) {
    case F32: return sum_of_squares<AsF32>(part.values, from, to);
    case F64: return sum_of_squares<AsF64>(part.values, from, to);
    case BF16: return sum_of_squares<AsBF16>(part.values, from, to);
    default: return sum_of_squares<AsF16>(part.values, from, to);
  }
}

inline void multiply(const Part& part, int64_t from, int64_t to, double factor) {
  switch (part.dtype) {
    case F32: return multiply<AsF32>(part.values, from, to, factor);
    case F64: return multiply<AsF64>(part.values, from, to, factor);
    case BF16: return multiply<AsBF16>(part.values, from, to, factor);
    default: return multiply<AsF16>(part.values, from, to, factor);
  }
}

inline double norm(const Shorten& s) {
  double sum = 0;
  for (const Part& part : s) {
    const int64_t pieces = (part.numel + PIECE - 1) / PIECE;
    constexpr int64_t AT_ONCE = 256;
    for (int64_t begin = 0; begin < pieces; begin += AT_ONCE) {
      double found[AT_ONCE];
      const int64_t count = pieces - begin < AT_ONCE ? pieces - begin : AT_ONCE;
#pragma omp parallel for num_threads(s.threads) if (part.numel >= WORTH_THREADS)
      for (int64_t i = 0; i < count; i++) {
        const int64_t from = (begin + i) * PIECE, to = from + PIECE;
        found[i] = sum_of_squares(part, from, to < part.numel ? to : part.numel);
      }
      for (int64_t i = 0; i < count; i++) sum += found[i];
    }
  }
  return std::sqrt(sum) / s.scale;
}

// Whether it wrote over them.
bool shorten(const Shorten& s) {
  enum { SEEN, STEPS, CUT, SINCE };
  const double size = norm(s), most = s.spike * std::sqrt(*s.square);
  // As in float32, in which other devices compute it.
  const bool finite = std::isfinite((float)(size * size)), over = s.counts[SEEN] && finite && size > most;
  if (finite && size > 0) {
    const double seen = (double)++s.counts[SEEN];
    const double decay = fmin(1 - 1 / seen, s.decay), kept = over ? most : size;
    *s.square = decay * *s.square + (1 - decay) * kept * kept;
  }
  s.counts[STEPS]++;
  if (!over) return false;
  s.counts[CUT]++;
  if (!s.counts[SINCE]) s.counts[SINCE] = s.counts[STEPS];
  for (const Part& part : s) {
    const int64_t pieces = (part.numel + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(s.threads) if (part.numel >= WORTH_THREADS)
    for (int64_t i = 0; i < pieces; i++) {
      const int64_t from = i * PIECE, to = from + PIECE;
      multiply(part, from, to < part.numel ? to : part.numel, most / size);
    }
  }
  return true;
}

}  // namespace PADENET_ISA
