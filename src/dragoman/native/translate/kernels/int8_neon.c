/* int8 products on ARM: products of small matrices (I8MM), dot products, or widening products.

All three are compiled in, and one is chosen when the library is loaded, because compilers do not agree on flags for the
current processor. All give the same integers. */
#include "int8_kernels.h"

#if NEON
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

/* Enables instructions for a single function; older compilers cannot, nor can gcc in code for a named processor. */
#if defined(__clang__)
#define WITH(what) __attribute__((target(what)))
#else
#define WITH(what) __attribute__((target("arch=armv8.2-a+" what)))
#endif
#if defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 10 && !defined(__ARM_FEATURE_DOTPROD)
#define TARGET_KNOWN 1
#else
#define TARGET_KNOWN 0
#endif
#ifdef __ARM_FEATURE_DOTPROD /* as on all Apple processors */
#define DOTS_COMPILED 1
#define WITH_DOTS
#else
#define DOTS_COMPILED TARGET_KNOWN
#define WITH_DOTS WITH("dotprod")
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
#define MATRICES_COMPILED 1
#define WITH_MATRICES
#else
#define MATRICES_COMPILED TARGET_KNOWN
#define WITH_MATRICES WITH("i8mm")
#endif

int neon_instructions;

#if defined(__APPLE__)
static int has(const char *feature) {
    int is = 0;
    size_t size = sizeof is;
    return !sysctlbyname(feature, &is, &size, NULL, 0) && is;
}
#endif

__attribute__((constructor)) static void detect_instructions(void) {
#if defined(__linux__)
    int dots = getauxval(AT_HWCAP) >> 20 & 1, matrices = getauxval(AT_HWCAP2) >> 13 & 1; /* ASIMDDP and I8MM */
#elif defined(__APPLE__)
    int dots = has("hw.optional.arm.FEAT_DotProd"), matrices = has("hw.optional.arm.FEAT_I8MM");
#else
    int dots = 0, matrices = 0;
#endif
    const char *forced = getenv("DRAGOMAN_INSTRUCTIONS"); /* to compare, or to report a bug */
    if (forced && !strcmp(forced, "portable")) dots = 0;
    if (forced && !strcmp(forced, "dotprod")) matrices = 0;
    neon_instructions = !dots || !DOTS_COMPILED ? WIDENING : matrices && MATRICES_COMPILED ? MATRIX_PRODUCTS : DOT_PRODUCTS;
}

/* Parameters of the kernels below: rows of q, `row` bytes apart, times `depth` inputs of a block, added to `out` unless
`fresh`. */
#define KERNEL const int8_t *q, size_t row, int depth, const int8_t *w, int32_t *out, int fresh

ALWAYS int32x4_t sum_so_far(const int32_t *at, int fresh) { return fresh ? vdupq_n_s32(0) : vld1q_s32(at); }

/* One or two rows. Weights and activations are at most 127, so two products fit into 16 bits. */
ALWAYS void widened_rows(const int rows, KERNEL) {
    const int tiles = rows == 1 ? 2 : 1;
    for (int first = 0; first < 4; first += tiles) {
        int32x4_t sum[2][16] = {}; /* each output has two sums, side by side */
        for (int i = 0; i < depth; i += 8) {
            int8x16_t a[2][2];
            for (int r = 0; r < rows; r++)
                for (int j = 0; j < 2; j++) a[r][j] = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(q + r * row + i + 4 * j)));
            for (int c = 0; c < 4 * tiles; c++) {
                const int8_t *at = w + weight_offset(i / 4, 16 * first + 4 * c);
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
                vst1q_s32(to, vaddq_s32(sum_so_far(to, fresh), vpaddq_s32(sum[r][2 * c], sum[r][2 * c + 1])));
            }
    }
}

static void widened_block(int rows, KERNEL) {
    for (; rows >= 2; rows -= 2, q += 2 * row, out += 2 * BLOCK) widened_rows(2, q, row, depth, w, out, fresh);
    if (rows) widened_rows(1, q, row, depth, w, out, fresh);
}

#if DOTS_COMPILED
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
            for (int c = 0; c < 4 * tiles; c++) sum[r][c] = sum_so_far(out + r * BLOCK + 16 * first + 4 * c, fresh);
        for (int i = 0; i < depth; i += 16) {
            const int8_t *at = w + weight_offset(i / 4, 16 * first);
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
            case 1: dot_rows(1, q, row, depth, w, out, fresh); break;
            case 2: dot_rows(2, q, row, depth, w, out, fresh); break;
            case 3: dot_rows(3, q, row, depth, w, out, fresh); break;
            default: dot_rows(4, q, row, depth, w, out, fresh);
        }
}
#endif

#if MATRICES_COMPILED
/* Pairs of rows by pairs of outputs, eight inputs at a time. */
ALWAYS WITH_MATRICES void matrix_rows(const int pairs, KERNEL) {
    for (int first = 0; first < BLOCK; first += 8) {
        int32x4_t sum[4][4]; /* row and row below of an output, then of the next */
        for (int p = 0; p < pairs; p++)
            for (int c = 0; c < 4; c++) sum[p][c] = vdupq_n_s32(0);
        for (int i = 0; i < depth; i += 8) {
            const int8_t *at = w + weight_offset(i / 4, first);
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
                vst1q_s32(to, vaddq_s32(sum_so_far(to, fresh), above));
                vst1q_s32(to + BLOCK, vaddq_s32(sum_so_far(to + BLOCK, fresh), below));
            }
    }
}

/* Rows in fours and eights, where the last group may read past the end; returns the number of rows done. One or two
remaining rows are faster with dot products. */
WITH_MATRICES static int matrix_block(int rows, KERNEL) {
    int done = 0;
    for (int each; rows - done >= 3; done += each, q += each * row, out += each * BLOCK) {
        each = rows - done >= 7 ? 8 : 4;
        if (each == 8) matrix_rows(4, q, row, depth, w, out, fresh);
        else matrix_rows(2, q, row, depth, w, out, fresh);
    }
    return done;
}
#endif

void neon_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out) {
    const size_t row = row_pitch(k);
    for (int i = 0; i < k; i += CACHED_INPUTS, q += CACHED_INPUTS, w += CACHED_INPUTS * BLOCK) {
        int depth = k - i < CACHED_INPUTS ? k - i : CACHED_INPUTS, done = 0;
#if MATRICES_COMPILED
        if (neon_instructions == MATRIX_PRODUCTS) done = matrix_block(rows, q, row, depth, w, out, !i);
#endif
#if DOTS_COMPILED
        if (neon_instructions != WIDENING) {
            dot_block(rows - done, q + done * row, row, depth, w, out + done * BLOCK, !i);
            continue;
        }
#endif
        widened_block(rows - done, q, row, depth, w, out, !i);
    }
}
#endif
