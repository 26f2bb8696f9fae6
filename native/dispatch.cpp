// The entry points, and the choice of the instruction set: the widest that this CPU has, or the one
// that PADENET_ISA names (baseline, avx2, avx512) if the CPU has it.
#include <cstdlib>
#include <cstring>

#include "problem.h"
#include "steps.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

#define DECLARE(isa)                 \
  namespace isa {                    \
  bool run(const Problem&, bool);    \
  void remember(const Hold&);        \
  void hold(const Hold&);            \
  bool shorten(const Shorten&);      \
  }

DECLARE(baseline)
#if defined(PADENET_HAS_AVX2)
DECLARE(avx2)
#endif
#if defined(PADENET_HAS_AVX512)
DECLARE(avx512)
#endif

namespace {

struct Isa {
  const char* name;
  bool (*run)(const Problem&, bool);
  void (*remember)(const Hold&);
  void (*hold)(const Hold&);
  bool (*shorten)(const Shorten&);
};

Isa choose() {
  const char* wanted = std::getenv("PADENET_ISA");
  auto allowed = [&](const char* name) { return !wanted || !*wanted || !strcmp(wanted, name); };
  (void)allowed;
#if defined(PADENET_HAS_AVX512)
  if (allowed("avx512") && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    return {"avx512", avx512::run, avx512::remember, avx512::hold, avx512::shorten};
#endif
#if defined(PADENET_HAS_AVX2)
  if ((allowed("avx2") || allowed("avx512")) && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    return {"avx2", avx2::run, avx2::remember, avx2::hold, avx2::shorten};
#endif
  return {"baseline", baseline::run, baseline::remember, baseline::hold, baseline::shorten};
}

const Isa& isa() {
  static const Isa chosen = choose();
  return chosen;
}

}  // namespace

EXPORT int padenet_abi_version() { return 4; }
EXPORT const char* padenet_isa() { return isa().name; }
EXPORT int padenet_has_openmp() {
#if defined(_OPENMP)
  return 1;
#else
  return 0;
#endif
}
EXPORT int padenet_forward(const Problem* p) { return isa().run(*p, false) ? 0 : 1; }
EXPORT int padenet_backward(const Problem* p) { return isa().run(*p, true) ? 0 : 1; }
EXPORT int padenet_remember(const Hold* h) {
  isa().remember(*h);
  return 0;
}
EXPORT int padenet_hold(const Hold* h) {
  isa().hold(*h);
  return 0;
}
EXPORT int padenet_shorten(const Shorten* s) { return isa().shorten(*s) ? 1 : 0; }
