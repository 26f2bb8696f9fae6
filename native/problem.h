// The C ABI: one packed struct, filled by padenet/core/native.py.
//
//   x, out     (outer, channels, inner) in memory order, dense; out is y or dx
//   dy         laid out as x, or a single number if dy_is_one_number
//   a, b       (groups, m + 1) and (groups, n), n + 1 with a constant, contiguous
//   da, db     as a, b
//   dims       with noise: the dims of x from the largest stride to the smallest, each with its
//              stride in the order of the shape; rank 0 means that memory has that order
#pragma once
#include <cstdint>

// What is done to A(x) in Q(x), as bits: padenet/core/forms.py.
enum Form : int64_t { PER_TERM = 1, AROUND = 2, CONSTANT = 4 };
enum Dtype : int64_t { F32, F64, BF16, F16 };

struct Dim {
  int64_t size, stride;
};

struct Problem {
  const void *x, *dy;
  void* out;
  const void *a, *b;
  void *da, *db;
  int64_t outer, channels, inner, groups;
  int64_t dtype, coefficient_dtype, form, m, n, threads, dy_is_one_number, noise, rank;
  uint64_t key;
  double q, alpha;

  const Dim* dims() const { return reinterpret_cast<const Dim*>(this + 1); }
  int64_t numel() const { return outer * channels * inner; }
};

constexpr int MAX_DEGREE = 32;
constexpr int MAX_COEFFICIENTS = 2 * MAX_DEGREE + 2;  // a_0 .. a_m, then d_0 .. d_n
