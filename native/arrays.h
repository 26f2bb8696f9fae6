// What a sweep needs besides its strips: sizes, memory, coefficients of any dtype, sums of lanes.
#pragma once
#include <cstdlib>

#include "problem.h"
#include "vec.h"

namespace PADENET_ISA {

inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

inline int64_t common_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y) {
    int64_t r = x % y;
    x = y, y = r;
  }
  return a / x * b;
}

template <class T>
T* allocate(int64_t count) {
  return static_cast<T*>(aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64));
}

// At any address: a tensor may view the bytes of a file or a message.
template <class T>
inline T element(const T* p) {
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
inline void set_element(T* p, T v) {
  memcpy(p, &v, sizeof v);
}

inline double read(const void* p, int64_t dtype, int64_t i) {
  switch (dtype) {
    case F32: return element(static_cast<const float*>(p) + i);
    case F64: return element(static_cast<const double*>(p) + i);
    case BF16: return AsBF16::get(element(static_cast<const uint16_t*>(p) + i));
    default: return AsF16::get(element(static_cast<const uint16_t*>(p) + i));
  }
}

inline void write(void* p, int64_t dtype, int64_t i, double v) {
  switch (dtype) {
    case F32: set_element(static_cast<float*>(p) + i, (float)v); break;
    case F64: set_element(static_cast<double*>(p) + i, v); break;
    case BF16: set_element(static_cast<uint16_t*>(p) + i, AsBF16::put(v)); break;
    default: set_element(static_cast<uint16_t*>(p) + i, AsF16::put(v));
  }
}

template <int N>
struct DoublesOf {
  typedef double V __attribute__((vector_size(N * sizeof(double))));
};
template <int N>
using Doubles = typename DoublesOf<N>::V;

// The upper half of the lanes added to the lower, until two are left.
template <int N>
inline double sum_of_lanes(Doubles<N> v) {
  if constexpr (N == 2) return v[0] + v[1];
  else {
    Doubles<N / 2> half[2];
    memcpy(half, &v, sizeof v);
    return sum_of_lanes<N / 2>(half[0] + half[1]);
  }
}

}  // namespace PADENET_ISA
