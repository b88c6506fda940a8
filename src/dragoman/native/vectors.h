/* Sixteen floats at a time, in the compiler's own vectors: one instruction with AVX-512, a few with AVX2 or NEON. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES 16
#define ALWAYS static inline __attribute__((always_inline))

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16x __attribute__((vector_size(64)));
typedef int8_t b16 __attribute__((vector_size(16)));

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define SHUFFLED(x, ...) __builtin_shuffle(x, (i16x){__VA_ARGS__})
#endif

ALWAYS v16 splat(float x) { return x - (v16){}; }

ALWAYS v16 max16(v16 a, v16 b) {
#ifdef __AVX512F__
    return (v16)_mm512_max_ps((__m512)a, (__m512)b);
#else
    i16x more = a > b;
    return (v16)(((i16x)a & more) | ((i16x)b & ~more));
#endif
}

ALWAYS float top_of(v16 x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* Pairs, then pairs of pairs: one order, whatever the machine. */
ALWAYS float sum_of(v16 x) {
    float s[8];
    for (int i = 0; i < 8; i++) s[i] = x[i] + x[i + 8];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* A bit for each lane of a that is over b. */
ALWAYS unsigned over(v16 a, v16 b) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#else
    i16x more = a > b;
    unsigned bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (unsigned)(more[i] & 1) << i;
    return bits;
#endif
}

#define ROUNDER 12582912.0f /* 1.5 * 2^23: what is added to it loses its fraction, and leaves a whole number in the low bits */

/* e^x to about one part in ten million, for x <= 88; very small results are 1e-38 and not 0. */
ALWAYS v16 exp16(v16 x) {
    x = max16(x, splat(-87.0f));
    v16 t = x * 1.44269504088896341f + ROUNDER, n = t - ROUNDER;
    v16 r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    v16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * (v16)(((i16x)t << 23) + 0x3f800000);
}

/* Keys and values are remembered in half precision where the processor converts it as it loads. */
#if defined(__AVX512F__)
#define HALF 1
ALWAYS v16 load_half(const uint16_t *p) { return (v16)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
ALWAYS void store_half(uint16_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
#define HALF 0
ALWAYS v16 load_half(const uint16_t *p) { return splat((float)*p); }
ALWAYS void store_half(uint16_t *p, v16 x) { *p = (uint16_t)x[0]; }
#endif
