/* int8 products in vectors of 256 bits, as on most laptops: with dot products (AVX-VNNI), or else in pairs. */
#include "int8_kernels.h"

#if defined(__AVX2__) && !HAS_AMX && !VNNI_ROWS
typedef int32_t Sums __attribute__((vector_size(32))); /* not __m256i, between which and these gcc 12 copies registers */

#define BYTES_PER_INPUT (SPLITS_SIGNS ? 2 : 1) /* of activations */

ALWAYS __m256i broadcast_four(const int8_t *four) {
    int32_t bits;
    memcpy(&bits, four, 4);
    return _mm256_set1_epi32(bits);
}

#if HAS_SHORT_DOTS
#ifdef __AVXVNNI__
#define DOT _mm256_dpbusd_avx_epi32
#else /* the same instruction on a processor that also has longer vectors, for tests */
#define DOT _mm256_dpbusd_epi32
#endif
#define ROWS_AT_ONCE 3 /* rows whose sums fill the registers */
typedef __m256i Four; /* inputs of a row: unsigned bytes, which `correction` cancels */

ALWAYS Four load_four(const int8_t *q) { return broadcast_four(q); }
ALWAYS Sums add_four(Sums sum, Four a, __m256i w, const int flips) { return (void)flips, (Sums)DOT((__m256i)sum, a, w); }
ALWAYS int has_flips(const int8_t *q, int rows, int k) { return (void)q, (void)rows, (void)k, 0; }
ALWAYS Sums initial_sum(const int8_t *row, int k, const int32_t *correction) { return (void)row, (void)k, *(const Sums *)correction; }

#else
#define ROWS_AT_ONCE 2
typedef struct {
    __m256i size, flip;
} Four;

/* Sums pairs of |a| w. Where a < 0, all bits of w are flipped, which gives -w - 1: one instruction less than -w in the
innermost loop. Two products of at most 127 and 128 fit into 16 bits. */
ALWAYS Four load_four(const int8_t *q) { return (Four){broadcast_four(q), broadcast_four(q + 4)}; }

ALWAYS Sums add_four(Sums sum, Four a, __m256i w, const int flips) {
    __m256i pairs = _mm256_maddubs_epi16(a.size, flips ? _mm256_xor_si256(w, a.flip) : w);
    return sum + (Sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* What the -1 subtracts from a row's sums, the sum of |a| over its negative numbers, follows the row. */
void split_signs(int8_t *row, int k) {
    __m128i sum = _mm_setzero_si128();
    for (int i = 0; i < k; i += 16) {
        __m128i a = _mm_load_si128((const __m128i *)(row + k + i));
        __m128i size = _mm_abs_epi8(a), flip = _mm_cmpgt_epi8(_mm_setzero_si128(), a);
        sum = _mm_add_epi64(sum, _mm_sad_epu8(_mm_and_si128(size, flip), _mm_setzero_si128()));
        _mm_store_si128((__m128i *)(row + 2 * i), _mm_unpacklo_epi32(size, flip));
        _mm_store_si128((__m128i *)(row + 2 * i + 16), _mm_unpackhi_epi32(size, flip));
    }
    int32_t total = _mm_cvtsi128_si32(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
    memcpy(row + 2 * k, &total, sizeof total);
}

ALWAYS int32_t sum_of_negatives(const int8_t *row, int k) {
    int32_t total;
    memcpy(&total, row + 2 * k, sizeof total);
    return total;
}

ALWAYS Sums initial_sum(const int8_t *row, int k, const int32_t *correction) {
    return (void)correction, sum_of_negatives(row, k) - (Sums){};
}

/* Whether any of some rows has a negative number; after a ReLU none has. */
ALWAYS int has_flips(const int8_t *q, int rows, int k) {
    int32_t total = 0;
    for (int r = 0; r < rows; r++) total |= sum_of_negatives(q + r * row_pitch(k), k);
    return total != 0;
}
#endif

/* One to three rows of q times `depth` inputs of four or eight vectors of a block, added to `out`; prefetches as many cache
lines as it reads. */
ALWAYS void avx2_rows(const int rows, const int wide, const int flips, const int8_t *q, size_t pitch, int depth,
                      const int8_t *w, const int8_t *ahead, int32_t *out) {
    const int lines = wide / 2;
    Sums sum[3][8];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < wide; c++) sum[r][c] = ((const Sums *)(out + r * BLOCK))[c];
    for (int i = 0; i < depth; i += 4, ahead += 64 * lines) {
        const int8_t *at = w + weight_offset(i / 4, 0);
        Four a[3];
        for (int line = 0; line < lines; line++) _mm_prefetch((const char *)ahead + 64 * line, _MM_HINT_T0);
        for (int r = 0; r < rows; r++) a[r] = load_four(q + r * pitch + i * BYTES_PER_INPUT);
        for (int c = 0; c < wide; c++) {
            __m256i weights = _mm256_load_si256((const __m256i *)(at + weight_offset(0, 8 * c)));
            for (int r = 0; r < rows; r++) sum[r][c] = add_four(sum[r][c], a[r], weights, flips);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < wide; c++) ((Sums *)(out + r * BLOCK))[c] = sum[r][c];
}

/* The weights of some inputs stay in the L1 cache while all rows pass, for one half of the outputs and then the other; each
group of rows prefetches a part of the next. */
ALWAYS void many_rows(const int flips, const int8_t *q, int rows, int k, const int8_t *w, int32_t *out) {
    const int share = CACHED_INPUTS / 2 * ROWS_AT_ONCE / rows * BLOCK;
    for (int i = 0; i < k; i += CACHED_INPUTS, w += CACHED_INPUTS * BLOCK) {
        const int depth = k - i < CACHED_INPUTS ? k - i : CACHED_INPUTS;
        const int8_t *ahead = w + depth * BLOCK;
        for (int from = 0; from < BLOCK; from += BLOCK / 2) {
            const int8_t *a = q + i * BYTES_PER_INPUT, *half = w + weight_offset(0, from);
            int32_t *to = out + from;
            for (int left = rows; left > 0; left -= ROWS_AT_ONCE, ahead += share) {
                switch (left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE) {
                    case 1: avx2_rows(1, 4, flips, a, row_pitch(k), depth, half, ahead, to); break;
                    case 2: avx2_rows(2, 4, flips, a, row_pitch(k), depth, half, ahead, to); break;
                    default: avx2_rows(3, 4, flips, a, row_pitch(k), depth, half, ahead, to);
                }
                a += ROWS_AT_ONCE * row_pitch(k), to += ROWS_AT_ONCE * BLOCK;
            }
        }
    }
}

void avx2_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *correction, int32_t *out) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 8; c++) ((Sums *)(out + r * BLOCK))[c] = initial_sum(q + r * row_pitch(k), k, correction + 8 * c);
    if (rows == 1)
        avx2_rows(1, 8, 1, q, row_pitch(k), k, w, w + PREFETCH_AHEAD, out);
    else if (has_flips(q, rows, k))
        many_rows(1, q, rows, k, w, out);
    else
        many_rows(0, q, rows, k, w, out);
}
#endif
