// The C ABI of what padenet.stabilize does around a step of an optimiser, filled in by
// padenet/torch/kernels/native_steps.py. The rules are those of padenet/torch/trust.py and
// padenet/torch/optim/spikes.py, computed in double.
#pragma once
#include <cstdint>

// The steps of some units alike. ``remember`` writes old_a and old_b, ``hold`` the coefficients and
// the counts. What is written over the coefficients is rounded once.
//
//   addresses       (rows, 2): where a and b of a row lie, contiguous, each row's its own
//   old_a, old_b    (rows, terms): the coefficients before the step, of their dtype
//   least           (rows,): what b_n is kept beyond, 0 for no limit
//   grid_a, grid_b  (terms, points): powers of the points; weight, inside (points,)
//   steps .. since  (rows,): counts
struct Hold {
  void* const* addresses;
  void *old_a, *old_b;
  const double *least, *grid_a, *grid_b, *weight, *inside;
  int64_t *steps, *held, *since;
  int64_t rows, terms_a, terms_b, points, dtype, form, cuts;
  double q, most, at_most, least_cut;
  int64_t threads;
};

constexpr int64_t MAX_POINTS = 128;

// The gradients of an optimiser: any dense tensors, each in one piece.
struct Part {
  void* values;
  int64_t numel, dtype;
};

struct Shorten {
  double* square;   // the running mean square of their norm
  int64_t* counts;  // seen, steps, cut, since
  int64_t parts, threads;
  double spike, decay, scale;  // scale: what the gradients were multiplied by

  const Part* begin() const { return reinterpret_cast<const Part*>(this + 1); }
  const Part* end() const { return begin() + parts; }
};
