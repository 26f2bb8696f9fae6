// Custom calls for XLA on the CPU: src/padenet/jax/native.py registers and makes them.
//
//   padenet_xla_forward    (x, a, b[, key]) -> y
//   padenet_xla_backward   (dy, x, a, b[, key]) -> dx, da, db
//
// Arrays are dense in the order of their shapes; the key is uint32 (2,), high word first. One
// attribute, int64 (4,): form, channel_dim, and the bits of q and alpha.
#include "xla.h"

#include <cstring>

#include "problem.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

extern "C" int padenet_forward(const Problem*);
extern "C" int padenet_backward(const Problem*);

namespace {

// XLA flushes subnormal numbers to zero in its threads; OpenMP's others do not, and nor does torch.
struct KeepSubnormals {
#if defined(__SSE2__)
  const unsigned before = _mm_getcsr();
  KeepSubnormals() { _mm_setcsr(before & ~0x8040u); }
  ~KeepSubnormals() { _mm_setcsr(before); }
#elif defined(__aarch64__)
  uint64_t before;
  KeepSubnormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" ::"r"(before & ~(uint64_t{1} << 24)));
  }
  ~KeepSubnormals() { asm volatile("msr fpcr, %0" ::"r"(before)); }
#endif
};

xla::Error* fail(const xla::Frame& f, const char* message, int32_t code) {
  xla::ErrorArguments e{sizeof e, nullptr, message, code};
  return f.api->create_error(&e);
}

int64_t dtype_of(const xla::Buffer& v) {
  switch (v.dtype) {
    case 11: return F32;
    case 12: return F64;
    case 16: return BF16;
    case 10: return F16;
    default: return -1;
  }
}

double as_double(int64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

// As many as XLA itself computes with.
int64_t threads_of(const xla::Frame& f) {
  int64_t count = 1;
  if (f.api->struct_size < offsetof(xla::Api, count_threads) + sizeof(void*)) return 1;
  xla::ThreadsArguments t{sizeof t, nullptr, f.context, &count};
  if (xla::Error* e = f.api->count_threads(&t)) {
    struct {
      size_t struct_size;
      xla::Extension* extensions;
      xla::Error* error;
    } args{sizeof args, nullptr, e};
    f.api->destroy_error(&args);
    return 1;
  }
  return count > 0 ? count : 1;
}

bool answers_about_itself(const xla::Frame& f) {
  for (xla::Extension* e = f.extensions; e; e = e->next) {
    if (e->type != xla::METADATA) continue;
    xla::Metadata& m = *reinterpret_cast<xla::MetadataExtension*>(e)->metadata;
    m.version.major = 0;
    m.version.minor = f.api ? f.api->version.minor : 0;  // what is used here is in all of them
    m.traits = 0;
    return true;
  }
  return false;
}

xla::Error* call(const xla::Frame& f, bool backward) {
  if (answers_about_itself(f)) return nullptr;
  const int64_t given = backward ? 4 : 3, made = backward ? 3 : 1;
  const auto &in = f.arguments, &out = f.results;
  const auto& at = f.attributes;
  const bool noise = in.size == given + 1;
  if (f.struct_size < sizeof f || f.stage != xla::EXECUTE || (in.size != given && !noise) ||
      out.size != made || at.size != 1 || at.types[0] != xla::ARRAY || at.items[0]->size != 4)
    return fail(f, "padenet: this jaxlib calls in another way", xla::INVALID_ARGUMENT);
  const xla::Buffer* const* v = in.items + backward;
  const xla::Buffer &x = *v[0], &a = *v[1], &b = *v[2];
  const int64_t* spec = at.items[0]->data;
  const int64_t c = spec[1];

  Problem p{};
  p.x = x.data, p.a = a.data, p.b = b.data, p.out = out.items[0]->data;
  if (backward) p.dy = in.items[0]->data, p.da = out.items[1]->data, p.db = out.items[2]->data;
  p.groups = a.rank == 2 ? a.dims[0] : 1;
  p.outer = p.channels = p.inner = 1;
  for (int64_t i = 0; i < x.rank; i++)
    (p.groups == 1 || i > c ? p.inner : i == c ? p.channels : p.outer) *= x.dims[i];
  p.dtype = dtype_of(x), p.coefficient_dtype = dtype_of(a);
  if (p.dtype < 0 || p.coefficient_dtype < 0 || dtype_of(b) != p.coefficient_dtype)
    return fail(f, "padenet: a dtype that the kernel does not take", xla::INVALID_ARGUMENT);
  p.form = spec[0], p.q = as_double(spec[2]), p.alpha = as_double(spec[3]);
  p.m = a.dims[a.rank - 1] - 1, p.n = b.dims[b.rank - 1] - (p.form & CONSTANT ? 1 : 0);
  p.threads = threads_of(f);
  p.noise = noise;
  if (noise) {
    uint32_t words[2];
    memcpy(words, in.items[given]->data, sizeof words);
    p.key = uint64_t{words[0]} << 32 | words[1];
  }
  KeepSubnormals here;
  if ((backward ? padenet_backward : padenet_forward)(&p))
    return fail(f, "padenet: no memory for partial sums", xla::RESOURCE_EXHAUSTED);
  return nullptr;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT xla::Error* padenet_xla_forward(const xla::Frame* f) { return call(*f, false); }
EXPORT xla::Error* padenet_xla_backward(const xla::Frame* f) { return call(*f, true); }
