/* Products of eight-bit numbers on ARM, by what the processor has: products of small matrices (I8MM), dot products, or
neither. All are in the library, which asks when it is loaded, because compilers do not agree on flags for the processor
at hand; and each gives the same whole numbers. A part of linear.h. */
#pragma once
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

/* Instructions for one function that the rest of the library does without: older compilers cannot give them, and gcc
cannot to code for a processor that was named. */
#if defined(__clang__)
#define WITH(what) __attribute__((target(what)))
#else
#define WITH(what) __attribute__((target("arch=armv8.2-a+" what)))
#endif
#if defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 10 && !defined(__ARM_FEATURE_DOTPROD)
#define ADDED 1
#else
#define ADDED 0
#endif
#ifdef __ARM_FEATURE_DOTPROD /* as on all that Apple sells */
#define DOTS_KNOWN 1
#define WITH_DOTS
#else
#define DOTS_KNOWN ADDED
#define WITH_DOTS WITH("dotprod")
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
#define MATRICES_KNOWN 1
#define WITH_MATRICES
#else
#define MATRICES_KNOWN ADDED
#define WITH_MATRICES WITH("i8mm")
#endif

enum { NEITHER, DOTS, MATRICES };
static int processor_has;

#if defined(__APPLE__)
static int has(const char *feature) {
    int is = 0;
    size_t size = sizeof is;
    return !sysctlbyname(feature, &is, &size, NULL, 0) && is;
}
#endif

__attribute__((constructor)) static void ask_processor(void) {
#if defined(__linux__)
    int dots = getauxval(AT_HWCAP) >> 20 & 1, matrices = getauxval(AT_HWCAP2) >> 13 & 1; /* ASIMDDP and I8MM */
#elif defined(__APPLE__)
    int dots = has("hw.optional.arm.FEAT_DotProd"), matrices = has("hw.optional.arm.FEAT_I8MM");
#else
    int dots = 0, matrices = 0;
#endif
    processor_has = !dots || !DOTS_KNOWN ? NEITHER : matrices && MATRICES_KNOWN ? MATRICES : DOTS;
}

#define DEEP8 256 /* inputs whose weights stay in the first cache while all rows pass */

/* What the kernels below have in common: rows of q, each `row` bytes from the next, times `deep` inputs of a block, added
to what `out` holds unless they are the first. */
#define KERNEL const int8_t *q, size_t row, int deep, const int8_t *w, int32_t *out, int begins

ALWAYS int32x4_t sum_so_far(const int32_t *at, int begins) { return begins ? vdupq_n_s32(0) : vld1q_s32(at); }

/* One or two rows. Weights and activations are within 127, so that two products fit 16 bits. */
ALWAYS void widened_rows(const int rows, KERNEL) {
    const int tiles = rows == 1 ? 2 : 1;
    for (int first = 0; first < 4; first += tiles) {
        int32x4_t sum[2][16] = {}; /* each output has two sums, side by side */
        for (int i = 0; i < deep; i += 8) {
            int8x16_t a[2][2];
            for (int r = 0; r < rows; r++)
                for (int j = 0; j < 2; j++) a[r][j] = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(q + r * row + i + 4 * j)));
            for (int c = 0; c < 4 * tiles; c++) {
                const int8_t *at = w + four_at(i / 4, 16 * first + 4 * c);
                int8x16_t w0 = vld1q_s8(at), w1 = vld1q_s8(at + 64);
                for (int r = 0; r < rows; r++) {
                    int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(w0), vget_low_s8(a[r][0])), vget_low_s8(w1), vget_low_s8(a[r][1]));
                    int16x8_t high = vmlal_high_s8(vmull_high_s8(w0, a[r][0]), w1, a[r][1]);
                    sum[r][2 * c] = vpadalq_s16(sum[r][2 * c], low);
                    sum[r][2 * c + 1] = vpadalq_s16(sum[r][2 * c + 1], high);
                }
            }
        }
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < 4 * tiles; c++) {
                int32_t *to = out + r * BLOCK + 16 * first + 4 * c;
                vst1q_s32(to, vaddq_s32(sum_so_far(to, begins), vpaddq_s32(sum[r][2 * c], sum[r][2 * c + 1])));
            }
    }
}

static void widened_block(int rows, KERNEL) {
    for (; rows >= 2; rows -= 2, q += 2 * row, out += 2 * BLOCK) widened_rows(2, q, row, deep, w, out, begins);
    if (rows) widened_rows(1, q, row, deep, w, out, begins);
}

#if DOTS_KNOWN
/* The weights of four inputs, 4 g .. 4 g + 3 of sixteen, times one to four rows. */
#define DOT_FOUR(g)                                                                                      \
    for (int c = 0; c < 4 * tiles; c++) {                                                                \
        int8x16_t weights = vld1q_s8(at + 1024 * (c / 4) + 64 * (g) + 16 * (c % 4));                     \
        for (int r = 0; r < rows; r++) sum[r][c] = vdotq_laneq_s32(sum[r][c], weights, a[r], g);         \
    }

ALWAYS WITH_DOTS void dot_rows(const int rows, KERNEL) {
    const int tiles = rows == 1 ? 4 : rows == 2 ? 2 : 1; /* as many sums as fit into the registers */
    for (int first = 0; first < 4; first += tiles) {
        int32x4_t sum[4][16];
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < 4 * tiles; c++) sum[r][c] = sum_so_far(out + r * BLOCK + 16 * first + 4 * c, begins);
        for (int i = 0; i < deep; i += 16) {
            const int8_t *at = w + four_at(i / 4, 16 * first);
            int8x16_t a[4];
            for (int r = 0; r < rows; r++) a[r] = vld1q_s8(q + r * row + i);
            DOT_FOUR(0) DOT_FOUR(1) DOT_FOUR(2) DOT_FOUR(3)
        }
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < 4 * tiles; c++) vst1q_s32(out + r * BLOCK + 16 * first + 4 * c, sum[r][c]);
    }
}

WITH_DOTS static void dot_block(int rows, KERNEL) {
    for (; rows > 0; rows -= 4, q += 4 * row, out += 4 * BLOCK) switch (rows) {
            case 1: dot_rows(1, q, row, deep, w, out, begins); break;
            case 2: dot_rows(2, q, row, deep, w, out, begins); break;
            case 3: dot_rows(3, q, row, deep, w, out, begins); break;
            default: dot_rows(4, q, row, deep, w, out, begins);
        }
}
#endif

#if MATRICES_KNOWN
/* Pairs of rows by pairs of outputs, eight inputs at a time. */
ALWAYS WITH_MATRICES void matrix_rows(const int pairs, KERNEL) {
    for (int first = 0; first < BLOCK; first += 8) {
        int32x4_t sum[4][4]; /* row and row below of an output, then of the next */
        for (int p = 0; p < pairs; p++)
            for (int c = 0; c < 4; c++) sum[p][c] = vdupq_n_s32(0);
        for (int i = 0; i < deep; i += 8) {
            const int8_t *at = w + four_at(i / 4, first);
            int8x16_t weights[4]; /* of two outputs each */
            for (int c = 0; c < 2; c++) {
                int32x4_t near = vreinterpretq_s32_s8(vld1q_s8(at + 16 * c)), far = vreinterpretq_s32_s8(vld1q_s8(at + 64 + 16 * c));
                weights[2 * c] = vreinterpretq_s8_s32(vzip1q_s32(near, far));
                weights[2 * c + 1] = vreinterpretq_s8_s32(vzip2q_s32(near, far));
            }
            for (int p = 0; p < pairs; p++) {
                const int8_t *above = q + 2 * p * row + i;
                int8x16_t a = vcombine_s8(vld1_s8(above), vld1_s8(above + row));
                for (int c = 0; c < 4; c++) sum[p][c] = vmmlaq_s32(sum[p][c], a, weights[c]);
            }
        }
        for (int p = 0; p < pairs; p++)
            for (int c = 0; c < 4; c += 2) {
                int32_t *to = out + 2 * p * BLOCK + first + 2 * c;
                int32x4_t above = vcombine_s32(vget_low_s32(sum[p][c]), vget_low_s32(sum[p][c + 1]));
                int32x4_t below = vcombine_s32(vget_high_s32(sum[p][c]), vget_high_s32(sum[p][c + 1]));
                vst1q_s32(to, vaddq_s32(sum_so_far(to, begins), above));
                vst1q_s32(to + BLOCK, vaddq_s32(sum_so_far(to + BLOCK, begins), below));
            }
    }
}

/* Fours and eights of rows, the last filled up with what lies behind it; returns how many, for one or two are better off
with dot products. */
WITH_MATRICES static int matrix_block(int rows, KERNEL) {
    int done = 0;
    for (int each; rows - done >= 3; done += each, q += each * row, out += each * BLOCK) {
        each = rows - done >= 7 ? 8 : 4;
        if (each == 8) matrix_rows(4, q, row, deep, w, out, begins);
        else matrix_rows(2, q, row, deep, w, out, begins);
    }
    return done;
}
#endif

static void neon_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out) {
    const size_t row = pitch(k);
    for (int i = 0; i < k; i += DEEP8, q += DEEP8, w += DEEP8 * BLOCK) {
        int deep = k - i < DEEP8 ? k - i : DEEP8, done = 0;
#if MATRICES_KNOWN
        if (processor_has == MATRICES) done = matrix_block(rows, q, row, deep, w, out, !i);
#endif
#if DOTS_KNOWN
        if (processor_has != NEITHER) {
            dot_block(rows - done, q + done * row, row, deep, w, out + done * BLOCK, !i);
            continue;
        }
#endif
        widened_block(rows - done, q, row, deep, w, out, !i);
    }
}
