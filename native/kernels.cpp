// Forward and backward over a whole tensor, for one instruction set.
//
// The tensor is (outer, channels, inner) in memory and `groups` units share out the channels.
//   long runs    A unit's elements lie in runs of channels/groups * inner elements. Runs are cut
//                into strips with one set of coefficients.
//   short runs   The units repeat with a period of channels * inner elements. A strip is a column
//                of vectors one period (or enough periods to fill whole vectors) apart: every lane
//                has a unit of its own.
// A strip adds up to 256 vectors in the type of the data; the sums of strips are added in double.
// The cut into tasks depends on the shape alone and each task has sums of its own, added in order
// at the end: the same bits for any number of threads.
#include <cstdlib>

#include "exact.h"
#include "strip.h"

namespace PADENET_ISA {

constexpr int64_t STRIP = 256;            // vectors in a strip
constexpr int64_t TASK = 1 << 15;         // elements in a task, at least
constexpr int64_t TASKS = 256;            // at most
constexpr int64_t TASK_SUMS = 1 << 20;    // doubles in the sums of all tasks, about at most
constexpr int64_t TILE = TILE_;         // elements in a tile of columns, about
constexpr int64_t FEWEST_ROWS = 16;       // in a tile
constexpr int64_t WIDEST = 1 << 16;       // elements in a row of columns

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
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

inline double read(const void* p, int64_t dtype, int64_t i) {
  switch (dtype) {
    case F32: return static_cast<const float*>(p)[i];
    case F64: return static_cast<const double*>(p)[i];
    case BF16: return AsBF16::get(static_cast<const uint16_t*>(p)[i]);
    default: return AsF16::get(static_cast<const uint16_t*>(p)[i]);
  }
}

inline void write(void* p, int64_t dtype, int64_t i, double v) {
  switch (dtype) {
    case F32: static_cast<float*>(p)[i] = (float)v; break;
    case F64: static_cast<double*>(p)[i] = v; break;
    case BF16: static_cast<uint16_t*>(p)[i] = AsBF16::put(v); break;
    default: static_cast<uint16_t*>(p)[i] = AsF16::put(v);
  }
}

template <class IO>
struct Sweep {
  using Elem = typename IO::Elem;
  using Real = typename IO::Real;
  using V = Vec<Real>;
  static constexpr int W = Lanes<Real>::W;
  using ForwardStrip = bool (*)(const Strip<IO>&);
  using BackwardStrip = bool (*)(const Strip<IO>&, V*);

  const Problem& p;
  ForwardStrip forward;
  BackwardStrip backward;  // null: forward only

  int64_t K;               // coefficients of a unit: a_0 .. a_m, d_0 .. d_n
  int64_t run, period, rows_apart, columns;
  double* c = nullptr;     // (groups, K)
  double* limits = nullptr;
  V* lanes = nullptr;      // short runs: (columns, 2 K + 1): base, noise slope, limit
  double* sums = nullptr;  // (tasks, groups, K)
  Elem repeated[W];        // dy where it is one number
  Keys keys;

  Sweep(const Problem& problem, ForwardStrip f, BackwardStrip b)
      : p(problem), forward(f), backward(b), K(p.m + p.n + 2), keys(p.key) {
    run = p.channels / p.groups * p.inner;
    period = p.channels * p.inner;
    rows_apart = common_multiple(period, W);
    columns = (smaller(rows_apart, p.numel()) + W - 1) / W;
  }
  ~Sweep() {
    free(c), free(limits), free(lanes), free(sums);
  }

  // Set-up costs a strip about as much as a few of its vectors: the longer strips win.
  bool long_runs() const {
    return p.groups == 1 || rows_apart > WIDEST || run >= smaller(rows_a_tile(), rows()) * W;
  }
  int64_t group_at(int64_t offset) const { return offset % period / run; }

  bool go() {
    c = allocate<double>(p.groups * K);
    limits = allocate<double>(p.groups);
    if (!c || !limits) return false;
    read_coefficients();
    if (!long_runs()) {
      lanes = allocate<V>(columns * (2 * K + 1));
      if (!lanes) return false;
      for (int64_t i = 0; i < columns; i++) set_lanes(lanes + i * (2 * K + 1), i * W);
    }
    if (p.dy_is_one_number)
      for (int i = 0; i < W; i++) repeated[i] = static_cast<const Elem*>(p.dy)[0];

    const int64_t pieces = long_runs() ? p.outer * p.groups * strips_a_run() : tiles();
    int64_t tasks = smaller(larger(p.numel() / TASK, 1), smaller(TASKS, pieces));
    if (backward) tasks = larger(1, smaller(tasks, TASK_SUMS / (p.groups * K)));
    if (backward) {
      sums = allocate<double>(tasks * p.groups * K);
      if (!sums) return false;
      memset(sums, 0, tasks * p.groups * K * sizeof(double));
    }
    const int threads = (int)(tasks == 1 ? 1 : smaller(p.threads, tasks));
    (void)threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
      double* own = sums + t * p.groups * K;
      const int64_t first = pieces * t / tasks, last = pieces * (t + 1) / tasks;
      if (long_runs()) do_runs(first, last, own);
      else do_tiles(first, last, own);
    }
    if (backward) finish(tasks);
    return true;
  }

  void read_coefficients() {
    const bool constant = p.form == OFFSET;
    for (int64_t g = 0; g < p.groups; g++) {
      double* u = c + g * K;
      double* d = u + p.m + 1;
      for (int64_t j = 0; j <= p.m; j++)
        u[j] = (Real)read(p.a, p.coefficient_dtype, g * (p.m + 1) + j);
      d[0] = 0;
      for (int64_t k = !constant; k <= p.n; k++) {
        d[k] = (Real)read(p.b, p.coefficient_dtype, g * (p.n + constant) + k - !constant);
        if (p.form == ABS_TERMS) d[k] = std::fabs(d[k]);
      }
      const int room = sizeof(Real) == 4 ? 60 : 480;
      limits[g] = direct_limit(u, p, p.noise ? room - 1 : room);
    }
  }

  // Base, noise slope and limit of the W units at `offset`.
  void set_lanes(V* v, int64_t offset) {
    for (int i = 0; i < W; i++) {
      const int64_t g = group_at(offset + i);
      for (int64_t k = 0; k < K; k++) {
        const double u = c[g * K + k];
        v[k][i] = (Real)(p.noise ? noise_base(u, p.alpha) : u);
        v[K + k][i] = (Real)noise_slope(u, p.alpha);
      }
      v[2 * K][i] = (Real)limits[g];
    }
  }

  int64_t strips_a_run() const { return (run + STRIP * W - 1) / (STRIP * W); }

  // The same where all lanes belong to unit g.
  void set_all(V* v, int64_t g) const {
    for (int64_t k = 0; k < K; k++) {
      const double u = c[g * K + k];
      v[k] = broadcast<Real>((Real)(p.noise ? noise_base(u, p.alpha) : u));
      if (p.noise) v[K + k] = broadcast<Real>((Real)noise_slope(u, p.alpha));
    }
    v[2 * K] = broadcast<Real>((Real)limits[g]);
  }

  void do_runs(int64_t first, int64_t last, double* own) {
    V v[2 * MAX_COEFFICIENTS + 1];
    int64_t set = -1;
    for (int64_t i = first; i < last; i++) {
      const int64_t r = i / strips_a_run(), part = i % strips_a_run(), g = r % p.groups;
      if (g != set) set_all(v, g), set = g;
      const int64_t begin = r * run + part * STRIP * W;
      const int64_t length = smaller(STRIP * W, (r + 1) * run - begin);
      do_strip(begin, length / W, W, v, own);
      if (length % W) do_tail(begin + length / W * W, length % W, v, own);
    }
  }

  int64_t rows() const { return (p.numel() + rows_apart - 1) / rows_apart; }
  int64_t rows_a_tile() const { return smaller(STRIP, larger(FEWEST_ROWS, TILE / rows_apart)); }
  int64_t tiles() const { return (rows() + rows_a_tile() - 1) / rows_a_tile(); }

  void do_tiles(int64_t first, int64_t last, double* own) {
    for (int64_t i = first; i < last; i++) {
      const int64_t top = i * rows_a_tile() * rows_apart;
      for (int64_t j = 0; j < columns; j++) {
        const V* v = lanes + j * (2 * K + 1);
        const int64_t begin = top + j * W, left = p.numel() - begin;
        if (left <= 0) break;
        // vectors that lie wholly inside the tensor, and perhaps one that does not
        const int64_t whole = left < W ? 0 : (left - W) / rows_apart + 1;
        const int64_t rows = smaller(rows_a_tile(), whole);
        do_strip(begin, rows, rows_apart, v, own);
        const int64_t rest = left - rows * rows_apart;
        if (rows < rows_a_tile() && rest > 0) do_tail(begin + rows * rows_apart, rest, v, own);
      }
    }
  }

  Strip<IO> strip(int64_t begin, int64_t count, int64_t step, const V* v) const {
    const Elem* x = static_cast<const Elem*>(p.x) + begin;
    Elem* out = static_cast<Elem*>(p.out) + begin;
    const Elem* dy = p.dy_is_one_number || !p.dy ? repeated : static_cast<const Elem*>(p.dy) + begin;
    const int64_t dy_step = p.dy_is_one_number ? 0 : step;
    const int64_t ahead = step == W ? 0 : rows_a_tile() * step;
    return {x, dy, out, count, step, dy_step, ahead, (uint64_t)begin, v, v + K, v[2 * K], &p, &keys};
  }

  void do_strip(int64_t begin, int64_t count, int64_t step, const V* v, double* own) {
    if (count) compute(strip(begin, count, step, v), W, own);
  }

  // The last `length` < W elements, through vectors filled up with zeros, which add nothing.
  void do_tail(int64_t begin, int64_t length, const V* v, double* own) {
    Elem x[W] = {}, dy[W] = {}, out[W];
    Strip<IO> s = strip(begin, 1, W, v);
    memcpy(x, s.x, length * sizeof(Elem));
    if (backward) memcpy(dy, s.dy, length * sizeof(Elem));
    Elem* target = s.out;
    s.x = x, s.dy = dy, s.out = out, s.dy_step = W;
    compute(s, (int)length, own);
    memcpy(target, out, length * sizeof(Elem));
  }

  void compute(const Strip<IO>& s, int used, double* own) {
    if (!backward) {
      if (forward(s)) redo_forward(s, used);
      return;
    }
    V total[MAX_COEFFICIENTS];
    for (int64_t k = 0; k < K; k++) total[k] = V{};
    if (backward(s, total)) {
      for (int64_t k = 0; k < K; k++) total[k] = V{};
      redo_backward(s, used, total, own);
    }
    add(total, s.offset, own);
  }

  void add(const V* total, uint64_t offset, double* own) const {
    if (long_runs()) {
      double* to = own + group_at(offset) * K;
      for (int64_t k = 0; k < K; k++) {
        double sum = 0;
        for (int i = 0; i < W; i++) sum += total[k][i];
        to[k] += sum;
      }
    } else {
      for (int i = 0; i < W; i++) {
        double* to = own + group_at(offset + i) * K;
        for (int64_t k = 0; k < K; k++) to[k] += total[k][i];
      }
    }
  }

  bool is_far(double x, int64_t g) const { return std::fabs(x) > limits[g]; }

  // The coefficients that the element at `offset` sees.
  void coefficients_at(int64_t offset, double* u) const {
    const double* base = c + group_at(offset) * K;
    for (int64_t k = 0; k < K; k++) u[k] = base[k];
    if (!p.noise) return;
    typename Lanes<double>::U words[4];
    const int64_t count = K - (p.form != OFFSET);
    for (int64_t i = 0; i < count; i++) {
      if (i % A_DRAW == 0) draw(p, keys, offset, (int)(i / A_DRAW), words);
      const int64_t k = i <= p.m || p.form == OFFSET ? i : i + 1;
      u[k] = noise<double>(words, i % A_DRAW)[0] * noise_slope(u[k], p.alpha) +
             noise_base(u[k], p.alpha);
    }
  }

  void redo_forward(const Strip<IO>& s, int used) const {
    double u[MAX_COEFFICIENTS];
    for (int64_t i = 0; i < s.count; i++)
      for (int l = 0; l < used; l++) {
        const int64_t at = i * s.step + l, offset = s.offset + at;
        const double x = IO::get(s.x[at]);
        if (!is_far(x, group_at(offset))) continue;
        coefficients_at(offset, u);
        s.out[at] = IO::put(exact_forward(x, u, p));
      }
  }

  // Vector by vector, with zeros in the place of far elements; then those, one at a time.
  void redo_backward(const Strip<IO>& s, int used, V* total, double* own) const {
    double u[MAX_COEFFICIENTS];
    for (int64_t i = 0; i < s.count; i++) {
      Elem x[W] = {}, dy[W] = {}, out[W];
      for (int l = 0; l < used; l++) {
        const int64_t at = i * s.step + l;
        if (is_far(IO::get(s.x[at]), group_at(s.offset + at))) continue;
        x[l] = s.x[at], dy[l] = s.dy[i * s.dy_step + l];
      }
      Strip<IO> one = s;
      one.x = x, one.dy = dy, one.out = out, one.count = 1, one.offset = s.offset + i * s.step;
      backward(one, total);
      for (int l = 0; l < used; l++) {
        const int64_t at = i * s.step + l, offset = s.offset + at;
        const double xl = IO::get(s.x[at]), g = IO::get(s.dy[i * s.dy_step + l]);
        if (is_far(xl, group_at(offset))) {
          coefficients_at(offset, u);
          out[l] = IO::put(exact_backward(g, xl, u, p, own + group_at(offset) * K));
        }
        s.out[at] = out[l];
      }
    }
  }

  void finish(int64_t tasks) const {
    const bool constant = p.form == OFFSET;
    for (int64_t g = 0; g < p.groups; g++)
      for (int64_t k = 0; k < K; k++) {
        double sum = 0;
        for (int64_t t = 0; t < tasks; t++) sum += sums[(t * p.groups + g) * K + k];
        const int64_t power = k - p.m - 1;  // of d_k
        if (power < 0) {
          write(p.da, p.coefficient_dtype, g * (p.m + 1) + k, sum);
        } else if (power > 0 || constant) {
          const int64_t i = g * (p.n + constant) + power - !constant;
          const double s = p.form == ABS_TERMS ? sign(read(p.b, p.coefficient_dtype, i)) : 1;
          sum = s == 0 ? 0 : s * sum;
          write(p.db, p.coefficient_dtype, i, sum);
        }
      }
  }
};

template <class IO, int FORM, int M, int N, bool NOISE>
bool sweep(const Problem& p, bool backward) {
  return Sweep<IO>(p, forward_strip<IO, FORM, M, N, NOISE>,
                   backward ? backward_strip<IO, FORM, M, N, NOISE> : nullptr)
      .go();
}

// The degrees of the paper are compiled in; noise in float64 and other degrees are not.
template <class IO, int FORM>
bool by_degrees(const Problem& p, bool backward) {
  constexpr bool single = sizeof(typename IO::Real) == 4;
  if (single && p.m == 5 && p.n == 4)
    return p.noise ? sweep<IO, FORM, 5, 4, true>(p, backward)
                   : sweep<IO, FORM, 5, 4, false>(p, backward);
  return p.noise ? sweep<IO, FORM, -1, -1, true>(p, backward)
                 : sweep<IO, FORM, -1, -1, false>(p, backward);
}

template <class IO>
bool by_form(const Problem& p, bool backward) {
  switch (p.form) {
    case SAFE: return by_degrees<IO, SAFE>(p, backward);
    case ABS_TERMS: return by_degrees<IO, ABS_TERMS>(p, backward);
    case FREE: return by_degrees<IO, FREE>(p, backward);
    default: return by_degrees<IO, OFFSET>(p, backward);
  }
}

bool run(const Problem& p, bool backward) {
  switch (p.dtype) {
    case F32: return by_form<AsF32>(p, backward);
    case F64: return by_form<AsF64>(p, backward);
    case BF16: return by_form<AsBF16>(p, backward);
    default: return by_form<AsF16>(p, backward);
  }
}

}  // namespace PADENET_ISA
