// Vectors of the widest registers that the translation unit is compiled for, and the four element
// types: how each is loaded into and stored from a vector of the type it is computed in.
//
// GCC and Clang vector extensions only: the same source gives AVX-512, AVX2, SSE2 and NEON.
// Everything lives in namespace PADENET_ISA, so that no two instruction sets share a symbol.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace PADENET_ISA {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX2__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

template <class Real>
struct Lanes;

template <>
struct Lanes<float> {
  static constexpr int W = BYTES / 4;
  typedef float V __attribute__((vector_size(BYTES)));
  typedef int32_t I __attribute__((vector_size(BYTES)));
  typedef uint32_t U __attribute__((vector_size(BYTES)));
  static constexpr int32_t SIGN = INT32_MIN;
};

template <>
struct Lanes<double> {
  static constexpr int W = BYTES / 8;
  typedef double V __attribute__((vector_size(BYTES)));
  typedef int64_t I __attribute__((vector_size(BYTES)));
  typedef uint64_t U __attribute__((vector_size(BYTES)));
  static constexpr int64_t SIGN = INT64_MIN;
};

template <class Real>
using Vec = typename Lanes<Real>::V;

template <class Real>
inline Vec<Real> broadcast(Real v) {
  return Vec<Real>{} + v;
}

template <class Real>
inline Vec<Real> absolute(Vec<Real> v) {
  using I = typename Lanes<Real>::I;
  return (Vec<Real>)((I)v & ~Lanes<Real>::SIGN);
}

// v >= 0 with the sign of s, and 0 where s is 0.
template <class Real>
inline Vec<Real> with_sign(Vec<Real> v, Vec<Real> s) {
#if defined(__AVX512DQ__)
  // s 2^300 is 0 or infinite; the smaller of it and v, with its sign. A comparison would take a
  // turn on the multipliers; these instructions run beside them.
  if constexpr (sizeof(Real) == 4) {
    const __m512 huge = _mm512_scalef_ps((__m512)s, _mm512_set1_ps(300));
    return (Vec<Real>)_mm512_range_ps(huge, (__m512)v, 2);
  }
#endif
  using I = typename Lanes<Real>::I;
  const I zero{}, flipped = (I)v ^ ((I)s & Lanes<Real>::SIGN);
  return (Vec<Real>)(s != (Vec<Real>)zero ? flipped : zero);
}

// v itself, but the compiler may not fuse the operation that made it with the next one.
template <class V>
inline V keep(V v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

inline float bits_to_float(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

inline uint32_t float_to_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}

typedef uint16_t Halves __attribute__((vector_size(BYTES / 2)));

// Stores past the cache, of whole vectors at aligned addresses.
inline void store_past_cache(float* p, Vec<float> v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, (__m128)v);
#else
  memcpy(p, &v, sizeof v);
#endif
}

inline void finish_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

struct AsF32 {
  using Elem = float;
  using Real = float;
  static Vec<float> load(const float* p) {
    Vec<float> v;
    memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, Vec<float> v) { memcpy(p, &v, sizeof v); }
  static constexpr bool CAN_STREAM = true;
  static void stream(float* p, Vec<float> v) { store_past_cache(p, v); }
  static double get(float v) { return v; }
  static float put(double v) { return (float)v; }
};

struct AsF64 {
  using Elem = double;
  using Real = double;
  static Vec<double> load(const double* p) {
    Vec<double> v;
    memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(double* p, Vec<double> v) { memcpy(p, &v, sizeof v); }
  static constexpr bool CAN_STREAM = false;
  static void stream(double* p, Vec<double> v) { store(p, v); }
  static double get(double v) { return v; }
  static double put(double v) { return v; }
};

struct AsBF16 {
  using Elem = uint16_t;
  using Real = float;
  using U = Lanes<float>::U;
#if defined(__AVX512BW__)
  // One permutation moves the 16 bits to and from the upper half of each lane.
  static Vec<float> load(const uint16_t* p) {
    U from{};
    for (uint32_t i = 0; i < 16; i++) from[i] = i << 16;
    const __m512i h = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)p));
    return (Vec<float>)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, (__m512i)from, h);
  }
  static void store(uint16_t* p, Vec<float> v) {
    U from{}, u = (U)v;
    for (uint32_t i = 0; i < 8; i++) from[i] = (4 * i + 1) | (4 * i + 3) << 16;
    const __mmask16 number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_ORD_Q);
    const U rest = ((u >> 16) & 1) + 0x7fff;  // round to nearest, ties to even; NaN stays as it is
    u = (U)_mm512_mask_add_epi32((__m512i)u, number, (__m512i)u, (__m512i)rest);
    const __m512i h = _mm512_permutexvar_epi16((__m512i)from, (__m512i)u);
    _mm256_storeu_si256((__m256i*)p, _mm512_castsi512_si256(h));
  }
#else
  static Vec<float> load(const uint16_t* p) {
    Halves h;
    memcpy(&h, p, sizeof h);
    return (Vec<float>)(__builtin_convertvector(h, U) << 16);
  }
  static void store(uint16_t* p, Vec<float> v) {
    U u = (U)v;
    u = (u + 0x7fff + ((u >> 16) & 1)) >> 16;  // round to nearest, ties to even
    u = (U)(v != v) ? U{} + 0x7fc0 : u;
    Halves h = __builtin_convertvector(u, Halves);
    memcpy(p, &h, sizeof h);
  }
#endif
  static constexpr bool CAN_STREAM = false;
  static void stream(uint16_t* p, Vec<float> v) { store(p, v); }
  static double get(uint16_t v) { return bits_to_float((uint32_t)v << 16); }
  static uint16_t put(double d) {
    float v = (float)d;
    uint32_t u = float_to_bits(v);
    return v != v ? 0x7fc0 : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  }
};

struct AsF16 {
  using Elem = uint16_t;
  using Real = float;
  static constexpr bool CAN_STREAM = false;
  static void stream(uint16_t* p, Vec<float> v) { store(p, v); }
  static double get(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, f = h & 1023;
    if (e == 31) return bits_to_float(sign | 0x7f800000 | f << 13);
    double v = e ? (double)(f + 1024) * bits_to_float((e + 102) << 23)  // 2^(e - 25)
                 : (double)f * 0x1p-24;
    return sign ? -v : v;
  }
  static uint16_t put(double d) {
    float v = (float)d;
    uint32_t u = float_to_bits(v), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return sign | 0x7e00;
    if (u >= 0x477ff000) return sign | 0x7c00;           // 65520 and more round to infinity
    if (u < 0x38800000) {                                // below 2^-14: a multiple of 2^-24
      float shifted = bits_to_float(u) + 0.5f;           // whose last bit is 2^-24
      return sign | (uint16_t)(float_to_bits(shifted) - 0x3f000000);
    }
    u += 0xfff + ((u >> 13) & 1) - 0x38000000;
    return sign | (uint16_t)(u >> 13);
  }
#if defined(__AVX512F__)
  static Vec<float> load(const uint16_t* p) {
    return (Vec<float>)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
  }
  static void store(uint16_t* p, Vec<float> v) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  static Vec<float> load(const uint16_t* p) {
    return (Vec<float>)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
  }
  static void store(uint16_t* p, Vec<float> v) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static Vec<float> load(const uint16_t* p) {
    Vec<float> v;
    for (int i = 0; i < Lanes<float>::W; i++) v[i] = (float)get(p[i]);
    return v;
  }
  static void store(uint16_t* p, Vec<float> v) {
    for (int i = 0; i < Lanes<float>::W; i++) p[i] = put(v[i]);
  }
#endif
};

}  // namespace PADENET_ISA
