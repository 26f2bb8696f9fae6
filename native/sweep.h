// Forward and backward over a whole tensor.
//
// The tensor is (outer, channels, inner) in memory and `groups` units share out the channels.
//   long runs    A unit's elements lie in runs of channels/groups * inner elements. Runs are cut
//                into strips with one set of coefficients.
//   short runs   The units repeat with a period of channels * inner elements. A strip is some rows
//                of one period (or of enough periods to fill whole vectors), and every lane has a
//                unit of its own.
// Up to 256 vectors are added in the type of the data; then sums go on in double. Where terms of a
// sum overflow, all elements are done once more, one at a time, by exact.h. The cut into
// tasks depends on the shape alone and each task has sums of its own, added in order at the end:
// the same bits for any number of threads.
#pragma once
#include "arrays.h"
#include "backward.h"
#include "exact.h"
#include "forward.h"

namespace PADENET_ISA {

constexpr int64_t STRIP = 256;          // vectors in a strip, and in a sum before it is double
constexpr int64_t TASK = 1 << 15;       // elements in a task, at least
constexpr int64_t TASKS = 256;          // at most
constexpr int64_t TASK_SUMS = 1 << 20;  // doubles in the sums of all tasks, about at most
constexpr int64_t SHORT = 4;            // vectors that a long run has at least
constexpr int64_t WIDEST = 1 << 16;     // elements in a row, at most
constexpr int64_t FEWEST_ROWS = 16;     // in a task
constexpr int64_t LARGE = 1 << 25;      // bytes that no cache is expected to hold

template <class IO>
struct Sweep {
  using Elem = typename IO::Elem;
  using Real = typename IO::Real;
  using V = Vec<Real>;
  static constexpr int W = Lanes<Real>::W;

  struct Strips {
    bool (*forward)(const Strip<IO>&);
    bool (*backward)(const Strip<IO>&, V*);
  };

  const Problem& p;
  const Strips one, many;  // for strips with one set of coefficients, and with many
  const bool backward;
  const bool large;  // the output: stored past the cache, which it would only sweep
  const Keys keys;
  const int64_t K;              // coefficients of a unit: a_0 .. a_m, d_0 .. d_n
  const int64_t period, block;  // elements until the units repeat, and in a row with one unit
  const bool lanes;             // short runs: a unit a lane
  int64_t row = W;              // elements in a row; one vector where there is one unit
  int64_t run, strip_length;    // elements between changes of the set, and in a strip
  int64_t strips_a_run, rows_a_strip;
  double* c = nullptr;          // (groups, K)
  double limit = INFINITY;      // of |x|, for the strips
  V* sets = nullptr;            // lanes: in panels, see Strip
  double* sums = nullptr;       // (tasks, groups, K)
  Elem repeated[W];             // dy where it is one number

  Sweep(const Problem& problem, const Strips& with_one, const Strips& with_many, bool b)
      : p(problem), one(with_one), many(with_many), backward(b),
        large(p.numel() * (int64_t)sizeof(Elem) > LARGE), keys(p.key), K(p.m + p.n + 2),
        period(p.channels * p.inner), block(p.channels / p.groups * p.inner),
        lanes(p.groups > 1 && period && block < SHORT * W && common_multiple(period, W) <= WIDEST) {
    if (lanes) row = common_multiple(period, W);
    run = lanes ? p.numel() : block;
    strip_length = lanes ? larger(1, STRIP * W / row) * row : STRIP * W;
    strips_a_run = (run + strip_length - 1) / strip_length;
    rows_a_strip = strip_length / row;
  }
  ~Sweep() { free(c), free(sets), free(sums); }

  int64_t columns() const { return row / W; }
  int64_t set_at(int64_t j) const { return place(j, 2 * K, columns()); }
  int64_t sum_at(int64_t j) const { return place(j, K, columns()); }
  // Vectors in all panels of sets with `vectors` vectors each.
  int64_t panels(int64_t vectors) const {
    return (columns() + PANEL - 1) / PANEL * vectors * pitch_of(columns());
  }
  int64_t group_at(int64_t offset) const { return offset % period / block; }

  bool go() {
    if (!p.numel()) return nothing();
    if (!(c = allocate<double>(p.groups * K))) return false;
    read_coefficients();
    if (lanes) {
      sets = allocate<V>(panels(2 * K));
      if (!sets) return false;
      for (int64_t j = 0; j < columns(); j++) set_lanes(sets + set_at(j), j * W);
    }
    if (p.dy_is_one_number)
      for (int i = 0; i < W; i++) repeated[i] = static_cast<const Elem*>(p.dy)[0];
    const int64_t pieces = p.numel() / run * strips_a_run;
    int64_t tasks = smaller(larger(p.numel() / TASK, 1), smaller(TASKS, pieces));
    if (backward) {
      tasks = larger(1, smaller(tasks, TASK_SUMS / (p.groups * K)));
      if (lanes) tasks = larger(1, smaller(tasks, p.numel() / row / FEWEST_ROWS));
      sums = allocate<double>(tasks * p.groups * K);
      if (!sums) return false;
      memset(sums, 0, tasks * p.groups * K * sizeof(double));
    }
    bool failed = false;
    [[maybe_unused]] const int threads = (int)smaller(p.threads, tasks);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1) \
    reduction(|| : failed)
    for (int64_t t = 0; t < tasks; t++)
      failed |= !task(pieces * t / tasks, pieces * (t + 1) / tasks, sums + t * p.groups * K);
    return !failed && (!backward || finish(tasks));
  }

  // No elements, no gradient.
  bool nothing() const {
    const int64_t constant = bool(p.form & CONSTANT);
    for (int64_t i = 0; backward && i < p.groups * (p.m + 1); i++)
      write(p.da, p.coefficient_dtype, i, 0);
    for (int64_t i = 0; backward && i < p.groups * (p.n + constant); i++)
      write(p.db, p.coefficient_dtype, i, 0);
    return true;
  }

  void read_coefficients() {
    const bool constant = p.form & CONSTANT;
    for (int64_t g = 0; g < p.groups; g++) {
      double* u = c + g * K;
      double* d = u + p.m + 1;
      for (int64_t j = 0; j <= p.m; j++)
        u[j] = (Real)read(p.a, p.coefficient_dtype, g * (p.m + 1) + j);
      d[0] = 0;
      for (int64_t k = !constant; k <= p.n; k++) {
        d[k] = (Real)read(p.b, p.coefficient_dtype, g * (p.n + constant) + k - !constant);
        if (p.form & PER_TERM) d[k] = std::fabs(d[k]);
      }
      const int room = sizeof(Real) == 4 ? 60 : 480;
      limit = std::fmin(limit, direct_limit(u, p, p.noise ? room - 1 : room));
    }
  }

  // Base and noise slope of the W units at `offset`.
  void set_lanes(V* v, int64_t offset) const {
    const int pitch = pitch_of(columns());
    for (int i = 0; i < W; i++) {
      const int64_t g = group_at(offset + i);
      for (int64_t k = 0; k < K; k++) {
        const double u = c[g * K + k];
        v[k * pitch][i] = (Real)(p.noise ? noise_base(u, p.alpha) : u);
        v[(K + k) * pitch][i] = (Real)noise_slope(u, p.alpha);
      }
    }
  }

  // The same where all lanes belong to unit g.
  void set_all(V* v, int64_t g) const {
    for (int64_t k = 0; k < K; k++) {
      const double u = c[g * K + k];
      v[k] = broadcast<Real>((Real)(p.noise ? noise_base(u, p.alpha) : u));
      if (p.noise) v[K + k] = broadcast<Real>((Real)noise_slope(u, p.alpha));
    }
  }

  // Strips first .. last - 1, their sums added to own (groups, K).
  bool task(int64_t first, int64_t last, double* own) const {
    V shared[2 * MAX_COEFFICIENTS], few[MAX_COEFFICIENTS];
    V* total = few;
    if (lanes && backward && !(total = allocate<V>(panels(K)))) return false;
    clear(total);
    int64_t r = first / strips_a_run, part = first % strips_a_run, g = r % p.groups;
    int64_t set = -1, rows = 0;
    for (int64_t i = first; i < last; i++) {
      const int64_t begin = r * run + part * strip_length;
      const int64_t length = smaller(strip_length, (r + 1) * run - begin), rest = length % W;
      if (!lanes && g != set) set_all(shared, g), set = g;
      Strip<IO> s = strip(begin, length / W, lanes ? sets : shared);
      if (s.count) compute(s, W, total, own);
      if (rest) tail(begin + length - rest, rest, lanes ? length / W % columns() : 0, s, total, own);
      rows += rows_a_strip;
      if (backward && (!lanes || rows + rows_a_strip > STRIP || i + 1 == last))
        add(total, own, g), clear(total), rows = 0;
      if (++part == strips_a_run) part = 0, r++, g = g + 1 == p.groups ? 0 : g + 1;
    }
    if (total != few) free(total);
    if (large) finish_stores();
    return true;
  }

  void clear(V* total) const {
    if (backward)
      for (int64_t i = 0; i < panels(K); i++) total[i] = V{};
  }

  Strip<IO> strip(int64_t begin, int64_t count, const V* v) const {
    const Elem* x = static_cast<const Elem*>(p.x) + begin;
    const Elem* dy = static_cast<const Elem*>(p.dy) + begin;
    Elem* out = static_cast<Elem*>(p.out) + begin;
    const bool same = p.dy_is_one_number;
    const bool stream = large && (uintptr_t)out % BYTES == 0;
    return {x, same ? repeated : dy, out, count, same ? 0 : W, columns(), stream,
            broadcast<Real>((Real)limit), v, (uint64_t)begin, &p, &keys};
  }

  // The last `length` < W elements, through vectors filled up with zeros, which add nothing.
  void tail(int64_t begin, int64_t length, int64_t column, Strip<IO> s, V* total,
            double* own) const {
    Elem x[W] = {}, dy[W] = {}, out[W];
    const Strip<IO> there = strip(begin, 1, nullptr);
    memcpy(x, there.x, length * sizeof(Elem));
    if (backward) memcpy(dy, there.dy, length * sizeof(Elem));
    s.x = x, s.dy = dy, s.out = out, s.dy_step = W, s.count = 1, s.offset = begin;
    s.stream = false;
    s.sets += set_at(column);
    compute(s, (int)length, total + sum_at(column), own);
    memcpy(there.out, out, length * sizeof(Elem));
  }

  void compute(const Strip<IO>& s, int used, V* total, double* own) const {
    const Strips& strips = s.columns > 1 ? many : one;
    if (!(backward ? strips.backward(s, total) : strips.forward(s))) return;
    if (s.stream) finish_stores();  // before some are written again
    if (backward) redo_backward(s, used, own);
    else redo_forward(s, used);
  }

  // To the sums of unit g, or of those that the lanes belong to in turn.
  void add(const V* total, double* own, int64_t g) const {
    if (!lanes) {
      double* to = own + g * K;
      for (int64_t k = 0; k < K; k++)
        to[k] += sum_of_lanes<W>(__builtin_convertvector(total[k], Doubles<W>));
      return;
    }
    int64_t left = block;  // lanes of unit g, which starts at 0
    for (int64_t j = 0; j < columns(); j++)
      for (int i = 0; i < W; i++, left--) {
        if (!left) left = block, g = g + 1 == p.groups ? 0 : g + 1;
        const V* from = total + sum_at(j);
        for (int64_t k = 0; k < K; k++) own[g * K + k] += from[k * pitch_of(columns())][i];
      }
  }

  bool is_far(double x) const { return std::fabs(x) > limit; }

  // The coefficients that the element at `offset` sees.
  void coefficients_at(int64_t offset, double* u) const {
    const double* base = c + group_at(offset) * K;
    for (int64_t k = 0; k < K; k++) u[k] = base[k];
    if (!p.noise) return;
    Words words[4], *const to = words;
    const uint64_t at = offset;
    const int64_t count = K - !(p.form & CONSTANT);
    for (int64_t i = 0; i < count; i++) {
      if (i % A_DRAW == 0) draw<1>(p, keys, &at, (uint32_t)(i / A_DRAW), &to);
      const int64_t k = i <= p.m || p.form & CONSTANT ? i : i + 1;
      u[k] = noise(words, (int)(i % A_DRAW), double())[0] * noise_slope(u[k], p.alpha) +
             noise_base(u[k], p.alpha);
    }
  }

  void redo_forward(const Strip<IO>& s, int used) const {
    double u[MAX_COEFFICIENTS];
    for (int64_t i = 0; i < s.count; i++)
      for (int64_t at = i * W; at < i * W + used; at++) {
        const double x = IO::get(s.x[at]);
        if (!is_far(x)) continue;
        coefficients_at(s.offset + at, u);
        s.out[at] = IO::put(exact_forward(x, u, p));
      }
  }

  void redo_backward(const Strip<IO>& s, int used, double* own) const {
    double u[MAX_COEFFICIENTS];
    for (int64_t i = 0; i < s.count; i++)
      for (int l = 0; l < used; l++) {
        const double x = IO::get(s.x[i * W + l]), dy = IO::get(s.dy[i * s.dy_step + l]);
        if (!is_far(x)) continue;
        const int64_t offset = s.offset + i * W + l;
        coefficients_at(offset, u);
        s.out[i * W + l] = IO::put(exact_backward(dy, x, u, p, own + group_at(offset) * K));
      }
  }

  // Whether a sum is infinite or NaN though x is no NaN and dy is finite: terms of it overflow.
  bool overflown() const {
    auto finite = [](const double* v, int64_t count) {
      double probe = 0;
      for (int64_t i = 0; i < count; i++) probe += v[i] * 0;
      return probe == 0;
    };
    if (finite(sums, p.groups * K) || !finite(c, p.groups * K)) return false;
    const Elem *x = static_cast<const Elem*>(p.x), *dy = static_cast<const Elem*>(p.dy);
    for (int64_t i = 0; i < p.numel(); i++) {
      const double g = IO::get(dy[p.dy_is_one_number ? 0 : i]);
      if (std::isnan(IO::get(x[i])) || !std::isfinite(g)) return false;
    }
    return true;
  }

  // All sums again, with exponents that hold whatever the terms are, and what is not finite of dx.
  bool count_again() const {
    Big* exact = allocate<Big>(p.groups * K);
    if (!exact) return false;
    for (int64_t i = 0; i < p.groups * K; i++) exact[i] = Big();
    double u[MAX_COEFFICIENTS];
    Elem* out = static_cast<Elem*>(p.out);
    for (int64_t i = 0; i < p.numel(); i++) {
      coefficients_at(i, u);
      const double x = IO::get(static_cast<const Elem*>(p.x)[i]);
      const double dy = IO::get(static_cast<const Elem*>(p.dy)[p.dy_is_one_number ? 0 : i]);
      const double dx = exact_backward(dy, x, u, p, exact + group_at(i) * K);
      if (!std::isfinite(IO::get(out[i]))) out[i] = IO::put(dx);
    }
    for (int64_t i = 0; i < p.groups * K; i++) sums[i] = (double)exact[i];
    free(exact);
    return true;
  }

  bool finish(int64_t tasks) const {
    const bool constant = p.form & CONSTANT;
    const int64_t count = p.groups * K;
    for (int64_t t = 1; t < tasks; t++)
      for (int64_t i = 0; i < count; i++) sums[i] += sums[t * count + i];
    if (overflown() && !count_again()) return false;
    for (int64_t g = 0; g < p.groups; g++)
      for (int64_t k = 0; k < K; k++) {
        const double sum = sums[g * K + k];
        const int64_t power = k - p.m - 1;  // of d_k
        if (power < 0) {
          write(p.da, p.coefficient_dtype, g * (p.m + 1) + k, sum);
        } else if (power > 0 || constant) {
          const int64_t i = g * (p.n + constant) + power - !constant;
          const double s = p.form & PER_TERM ? sign(read(p.b, p.coefficient_dtype, i)) : 1;
          write(p.db, p.coefficient_dtype, i, s == 0 ? 0 : s * sum);
        }
      }
    return true;
  }
};

}  // namespace PADENET_ISA
