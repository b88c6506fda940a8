/* SIMD vectors as wide as a register, in the compiler's own types. All functions are inlined: they are the inner loops. */
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
#else
#define NEON 0
#endif
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__) && defined(__F16C__)
#define LANES 8
#else
#define LANES 4
#endif
#define SUMS (LANES == 16 || NEON ? 16 : 8) /* accumulated at once: half of the registers */
#define ALWAYS static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES))); /* the bits of floats, to calculate with: they wrap around */
typedef int8_t Bytes __attribute__((vector_size(16)));

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define SHUFFLED(x, ...) __builtin_shuffle(x, (Ints){__VA_ARGS__})
#endif

/* sum + a * b, rounded as the compiler rounds it for vectors: once if the processor has FMA. */
#if defined(__FMA__) || LANES == 16 || NEON
#define MULTIPLY_ADD(sum, a, b) fmaf(a, b, sum)
#else
#define MULTIPLY_ADD(sum, a, b) ((sum) + (a) * (b))
#endif

ALWAYS Floats splat(float x) { return x - (Floats){}; }

/* The same for vectors, in the inner sums: gcc 13 fuses only some of these on its own, and then the number of rows would
change a row's bits. */
ALWAYS Floats multiply_add(Floats a, Floats b, Floats sum) {
#if LANES == 16
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif LANES == 8 && defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#elif NEON
    return (Floats)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#else
    return sum + a * b;
#endif
}

ALWAYS Floats larger(Floats a, Floats b) {
#if LANES == 16
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#elif NEON
    return (Floats)vbslq_f32(vcgtq_f32((float32x4_t)a, (float32x4_t)b), (float32x4_t)a, (float32x4_t)b);
#else
    Ints more = a > b;
    return (Floats)(((Ints)a & more) | ((Ints)b & ~more));
#endif
}

ALWAYS float top_of(Floats x) {
    float top = x[0];
    for (int i = 1; i < LANES; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* Pairs, then pairs of pairs: one order, whatever the instructions. */
ALWAYS float sum_of(Floats x) {
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
}

/* Whether any lane of a is greater than b. */
ALWAYS unsigned over(Floats a, Floats b) {
#if LANES == 16
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#elif LANES == 8
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ));
#elif NEON
    return vmaxvq_u32(vcgtq_f32((float32x4_t)a, (float32x4_t)b));
#else
    Ints more = a > b;
    unsigned bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (unsigned)(more[i] & 1) << i;
    return bits;
#endif
}

#define ROUNDER 12582912.0f /* 1.5 * 2^23: adding a number rounds it to an integer in the low bits */

/* e^x to about one part in ten million, for x <= 88; very small results are 1e-38, not 0. Weights that are not finite can
make x larger: the result is then some float. */
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
    return p * (Floats)(((Words)t << 23) + 0x3f800000);
}

/* Sixteen floats times a factor, rounded to the nearest integers, which must fit into eight bits. */
ALWAYS Bytes bytes_of(const float *x, float factor) {
    Ints whole[16 / LANES];
    for (int i = 0; i < 16 / LANES; i++) whole[i] = (Ints)((Words)(((const Floats *)x)[i] * factor + ROUNDER) - 0x4b400000);
#if LANES == 16
    return (Bytes)_mm512_cvtepi32_epi8((__m512i)whole[0]); /* gcc 12 converts the vector lane by lane */
#elif NEON
    int16x8_t low = vuzp1q_s16((int16x8_t)whole[0], (int16x8_t)whole[1]), high = vuzp1q_s16((int16x8_t)whole[2], (int16x8_t)whole[3]);
    return (Bytes)vuzp1q_s8((int8x16_t)low, (int8x16_t)high);
#elif defined(__x86_64__)
    const __m128i *four = (const __m128i *)whole;
    return (Bytes)_mm_packs_epi16(_mm_packs_epi32(four[0], four[1]), _mm_packs_epi32(four[2], four[3]));
#else
    Bytes bytes;
    for (int i = 0; i < 16; i++) bytes[i] = (int8_t)whole[i / LANES][i % LANES];
    return bytes;
#endif
}

/* Keys and values are cached in half precision where the processor converts on load. */
#if LANES == 16
#define HALF 1
ALWAYS Floats load_half(const uint16_t *p) { return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
ALWAYS void store_half(uint16_t *p, Floats x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif LANES == 8
#define HALF 1
ALWAYS Floats load_half(const uint16_t *p) { return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
ALWAYS void store_half(uint16_t *p, Floats x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
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
