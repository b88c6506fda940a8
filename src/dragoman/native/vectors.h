/* A few floats at a time, in the compiler's own vectors: sixteen on x86, one instruction with AVX-512 and a few with
AVX2; four on ARM, where compilers keep longer ones in memory. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#include <arm_neon.h>
#define NEON 1
#define LANES 4
#else
#define NEON 0
#define LANES 16
#endif
#define ALWAYS static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef int8_t Bytes __attribute__((vector_size(16)));

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define SHUFFLED(x, ...) __builtin_shuffle(x, (Ints){__VA_ARGS__})
#endif

ALWAYS Floats splat(float x) { return x - (Floats){}; }

ALWAYS Floats larger(Floats a, Floats b) {
#ifdef __AVX512F__
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif NEON
    return (Floats)vbslq_f32(vcgtq_f32((float32x4_t)a, (float32x4_t)b), (float32x4_t)a, (float32x4_t)b);
#else
    Ints more = a > b;
    return (Floats)(((Ints)a & more) | ((Ints)b & ~more));
#endif
}

ALWAYS float top_of(Floats x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* Pairs, then pairs of pairs: one order, whatever the instructions. */
ALWAYS float sum_of(Floats x) {
#if LANES == 4
    return (x[0] + x[2]) + (x[1] + x[3]);
#else
    float s[8];
    for (int i = 0; i < 8; i++) s[i] = x[i] + x[i + 8];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
#endif
}

/* Whether any lane of a is over b. */
ALWAYS unsigned over(Floats a, Floats b) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#elif NEON
    return vmaxvq_u32(vcgtq_f32((float32x4_t)a, (float32x4_t)b));
#else
    Ints more = a > b;
    unsigned bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (unsigned)(more[i] & 1) << i;
    return bits;
#endif
}

#define ROUNDER 12582912.0f /* 1.5 * 2^23: what is added to it loses its fraction, and leaves a whole number in the low bits */

/* e^x to about one part in ten million, for x <= 88; very small results are 1e-38 and not 0. */
ALWAYS Floats exp_of(Floats x) {
    x = larger(x, splat(-87.0f));
    Floats t = x * 1.44269504088896341f + ROUNDER, n = t - ROUNDER;
    Floats r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * (Floats)(((Ints)t << 23) + 0x3f800000);
}

/* Sixteen floats times a factor, to the nearest whole numbers, which must fit into eight bits. */
ALWAYS Bytes bytes_of(const float *x, float factor) {
#if NEON
    int16x8_t half[2]; /* the whole numbers are in the low bits: nothing but those is kept */
    for (int i = 0; i < 2; i++) {
        Floats a = ((const Floats *)x)[2 * i] * factor + ROUNDER, b = ((const Floats *)x)[2 * i + 1] * factor + ROUNDER;
        half[i] = vuzp1q_s16((int16x8_t)a, (int16x8_t)b);
    }
    return (Bytes)vuzp1q_s8((int8x16_t)half[0], (int8x16_t)half[1]);
#else
    Floats t = *(const Floats *)x * factor + ROUNDER;
    Ints whole = (Ints)t - 0x4b400000;
    return __builtin_convertvector(whole, Bytes);
#endif
}

/* Keys and values are remembered in half precision where the processor converts it as it loads. */
#if defined(__AVX512F__)
#define HALF 1
ALWAYS Floats load_half(const uint16_t *p) { return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
ALWAYS void store_half(uint16_t *p, Floats x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif NEON
#define HALF 1
ALWAYS Floats load_half(const uint16_t *p) { return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
ALWAYS void store_half(uint16_t *p, Floats x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x))); }
#else
#define HALF 0
ALWAYS Floats load_half(const uint16_t *p) { return splat((float)*p); }
ALWAYS void store_half(uint16_t *p, Floats x) { *p = (uint16_t)x[0]; }
#endif
