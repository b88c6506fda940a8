/* Dot products of int8 numbers in vectors of 512 bits (AVX-512 VNNI). */
#include "int8_kernels.h"

#if VNNI_ROWS
#define ROWS_AT_ONCE 6 /* rows whose sums, with the weights of one step, fill the registers */

/* One to six rows of q times `depth` inputs of a block, added to `out`; each step prefetches `lines` cache lines. */
ALWAYS void vnni_rows(const int rows, const int lines, const int8_t *q, size_t pitch, int depth, const int8_t *w,
                      const int8_t *ahead, int32_t *out) {
    const int chains = rows == 1 ? 2 : 1; /* the sums of a single row would wait for each other */
    Ints sum[2][ROWS_AT_ONCE][4]; /* not __m512i, between which and these gcc 12 copies registers */
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++) {
            sum[0][r][c] = ((const Ints *)(out + r * BLOCK))[c];
            sum[1][r][c] = (Ints){};
        }
    for (int i = 0; i < depth; i += 4 * chains)
        for (int chain = 0; chain < chains; chain++, ahead += 64 * lines) {
            const int8_t *at = w + weight_offset(i / 4 + chain, 0);
            for (int line = 0; line < lines; line++) _mm_prefetch((const char *)ahead + 64 * line, _MM_HINT_T0);
            __m512i weights[4];
            for (int c = 0; c < 4; c++) weights[c] = _mm512_load_si512(at + weight_offset(0, 16 * c));
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, q + r * pitch + i + 4 * chain, 4);
                __m512i a = _mm512_set1_epi32(four);
                for (int c = 0; c < 4; c++)
                    sum[chain][r][c] = (Ints)_mm512_dpbusd_epi32((__m512i)sum[chain][r][c], a, weights[c]);
            }
        }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++) ((Ints *)(out + r * BLOCK))[c] = rows == 1 ? sum[0][r][c] + sum[1][r][c] : sum[0][r][c];
}

ALWAYS void vnni_group(int rows, const int lines, const int8_t *q, size_t pitch, int depth, const int8_t *w,
                       const int8_t *ahead, int32_t *out) {
    switch (rows) {
        case 1: vnni_rows(1, lines, q, pitch, depth, w, ahead, out); break;
        case 2: vnni_rows(2, lines, q, pitch, depth, w, ahead, out); break;
        case 3: vnni_rows(3, lines, q, pitch, depth, w, ahead, out); break;
        case 4: vnni_rows(4, lines, q, pitch, depth, w, ahead, out); break;
        case 5: vnni_rows(5, lines, q, pitch, depth, w, ahead, out); break;
        default: vnni_rows(6, lines, q, pitch, depth, w, ahead, out);
    }
}

/* The weights of some inputs stay in the L1 cache while all rows pass; each group of rows prefetches a part of the next. */
static void many_rows(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out) {
    const int groups = (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, each = (rows + groups - 1) / groups;
    const int share = CACHED_INPUTS / groups * BLOCK;
    for (int i = 0; i < k; i += CACHED_INPUTS, w += CACHED_INPUTS * BLOCK) {
        const int depth = k - i < CACHED_INPUTS ? k - i : CACHED_INPUTS;
        const int8_t *a = q + i, *ahead = w + depth * BLOCK;
        int32_t *to = out;
        for (int left = rows; left > 0; left -= each, ahead += share) {
            vnni_group(left < each ? left : each, 2, a, row_pitch(k), depth, w, ahead, to);
            a += each * row_pitch(k), to += each * BLOCK;
        }
    }
}

void vnni_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *correction, int32_t *out) {
    for (int r = 0; r < rows; r++) memcpy(out + r * BLOCK, correction, BLOCK * sizeof *out);
    if (rows <= ROWS_AT_ONCE) /* the weights are read once, from front to back */
        vnni_group(rows, 4, q, row_pitch(k), k, w, w + PREFETCH_AHEAD, out);
    else
        many_rows(q, rows, k, w, out);
}
#endif
