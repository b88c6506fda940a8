/* int8 products in vectors of 256 bits, as on most laptops: with dot products (AVX-VNNI), or else in pairs. */
#include "int8_kernels.h"

#if defined(__AVX2__) && !HAS_AMX && !VNNI_ROWS
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
ALWAYS __m256i add_four(__m256i sum, Four a, __m256i w) { return DOT(sum, a, w); }
ALWAYS int32_t row_correction(const int8_t *q, int k) { return (void)q, (void)k, 0; }
ALWAYS __m256i initial_sum(const int32_t *correction, int32_t more) { return (void)more, _mm256_load_si256((const __m256i *)correction); }

#else
#define ROWS_AT_ONCE 2
typedef struct {
    __m256i size, flip;
} Four;

/* Sums pairs of |a| w. Where a < 0, all bits of w are flipped, which gives -w - 1: one instruction less than -w in the
innermost loop. Two products of at most 127 and 128 fit into 16 bits. */
ALWAYS Four load_four(const int8_t *q) {
    __m256i a = broadcast_four(q);
    return (Four){_mm256_abs_epi8(a), _mm256_cmpgt_epi8(_mm256_setzero_si256(), a)};
}

ALWAYS __m256i add_four(__m256i sum, Four a, __m256i w) {
    __m256i pairs = _mm256_maddubs_epi16(a.size, _mm256_xor_si256(w, a.flip));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* What the -1 subtracts from a row's sums: the sum of |a| over its negative numbers. */
ALWAYS int32_t row_correction(const int8_t *q, int k) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum = zero;
    for (int i = 0; i < k; i += 32) {
        __m256i less = _mm256_sub_epi8(zero, _mm256_loadu_si256((const __m256i *)(q + i)));
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_max_epi8(less, zero), zero));
    }
    int64_t parts[4];
    _mm256_storeu_si256((__m256i *)parts, sum);
    return (int32_t)(parts[0] + parts[1] + parts[2] + parts[3]);
}

ALWAYS __m256i initial_sum(const int32_t *correction, int32_t more) { return (void)correction, _mm256_set1_epi32(more); }
#endif

/* One to three rows of q times one block. */
ALWAYS void avx2_rows(const int rows, const int8_t *q, int k, const int8_t *w, const int32_t *correction, int32_t *out) {
    const int wide = rows == 1 ? 8 : 4;
    int32_t more[3];
    for (int r = 0; r < rows; r++) more[r] = row_correction(q + r * row_pitch(k), k);
    for (int from = 0; from < 8; from += wide) {
        __m256i sum[3][8];
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++) sum[r][c] = initial_sum(correction + 8 * (from + c), more[r]);
        for (int i = 0; i < k; i += 4) {
            const int8_t *at = w + weight_offset(i / 4, 8 * from);
            Four a[3];
            for (int r = 0; r < rows; r++) a[r] = load_four(q + r * row_pitch(k) + i);
            for (int c = 0; c < wide; c++) {
                const int8_t *line = at + 1024 * (c / 2);
                if (c % 2 == 0) _mm_prefetch((const char *)line + PREFETCH_AHEAD, _MM_HINT_T0);
                __m256i weights = _mm256_load_si256((const __m256i *)(line + 32 * (c % 2)));
                for (int r = 0; r < rows; r++) sum[r][c] = add_four(sum[r][c], a[r], weights);
            }
        }
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++) _mm256_storeu_si256((__m256i *)(out + r * BLOCK + 8 * (from + c)), sum[r][c]);
    }
}

void avx2_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *correction, int32_t *out) {
    for (; rows > 0; rows -= ROWS_AT_ONCE, q += ROWS_AT_ONCE * row_pitch(k), out += ROWS_AT_ONCE * BLOCK)
        switch (rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE) {
            case 1: avx2_rows(1, q, k, w, correction, out); break;
            case 2: avx2_rows(2, q, k, w, correction, out); break;
            default: avx2_rows(3, q, k, w, correction, out);
        }
}
#endif
