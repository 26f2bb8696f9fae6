// One instruction set: the strips that it has, and the choice among them.
#include "hold.h"
#include "shorten.h"
#include "sweep.h"

namespace PADENET_ISA {

template <class IO, int FORM, int M, int N, bool NOISE, int PITCH>
typename Sweep<IO>::Strips strips() {
  return {forward_strip<IO, FORM, M, N, NOISE, PITCH>,
          backward_strip<IO, FORM, M, N, NOISE, PITCH>};
}

// The degrees of the paper are compiled in, in float32; others are read at run time.
template <class IO, int FORM>
bool paper_degrees(const Problem& p, bool backward) {
  if (p.noise)
    return Sweep<IO>(p, strips<IO, FORM, 5, 4, true, 1>(), strips<IO, -1, -1, -1, true, PITCHED>(),
                     backward)
        .go();
  return Sweep<IO>(p, strips<IO, FORM, 5, 4, false, 1>(), strips<IO, FORM, 5, 4, false, PITCHED>(),
                   backward)
      .go();
}

template <class IO>
bool any_degrees(const Problem& p, bool backward) {
  if (p.noise)
    return Sweep<IO>(p, strips<IO, -1, -1, -1, true, 1>(), strips<IO, -1, -1, -1, true, PITCHED>(),
                     backward)
        .go();
  return Sweep<IO>(p, strips<IO, -1, -1, -1, false, 1>(), strips<IO, -1, -1, -1, false, PITCHED>(),
                   backward)
      .go();
}

template <class IO>
bool by_degrees(const Problem& p, bool backward) {
  if constexpr (sizeof(typename IO::Real) == 4)
    if (p.m == 5 && p.n == 4) switch (p.form) {
        case 0: return paper_degrees<IO, 0>(p, backward);
        case PER_TERM: return paper_degrees<IO, PER_TERM>(p, backward);
        case AROUND: return paper_degrees<IO, AROUND>(p, backward);
        case AROUND | CONSTANT: return paper_degrees<IO, AROUND | CONSTANT>(p, backward);
      }  // another form is read at run time
  return any_degrees<IO>(p, backward);
}

bool run(const Problem& p, bool backward) {
  switch (p.dtype) {
    case F32: return by_degrees<AsF32>(p, backward);
    case F64: return by_degrees<AsF64>(p, backward);
    case BF16: return by_degrees<AsBF16>(p, backward);
    default: return by_degrees<AsF16>(p, backward);
  }
}

}  // namespace PADENET_ISA
