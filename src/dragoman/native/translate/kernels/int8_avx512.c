/* Dot products of int8 numbers in vectors of 512 bits (AVX-512 VNNI). */
#include "int8_kernels.h"

#if VNNI_ROWS
ALWAYS void vnni_rows(const int rows, const int8_t *q, int k, const int8_t *w, const int32_t *correction, int32_t *out) {
    __m512i sum[2][4][4];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++) {
            sum[0][r][c] = _mm512_load_si512(correction + 16 * c);
            sum[1][r][c] = _mm512_setzero_si512();
        }
    for (int i = 0; i < k; i += 64)
        for (int g = 0; g < 16; g++) {
            const int8_t *b = w + (size_t)i * BLOCK + 64 * g;
            int side = rows == 1 ? g & 1 : 0; /* the sums of a single row would form one dependency chain */
            __m512i weights[4];
            for (int c = 0; c < 4; c++) {
                _mm_prefetch((const char *)b + PREFETCH_AHEAD + 1024 * c, _MM_HINT_T0);
                weights[c] = _mm512_load_si512(b + 1024 * c);
            }
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, q + r * row_pitch(k) + i + 4 * g, 4);
                __m512i a = _mm512_set1_epi32(four);
                for (int c = 0; c < 4; c++) sum[side][r][c] = _mm512_dpbusd_epi32(sum[side][r][c], a, weights[c]);
            }
        }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++)
            _mm512_store_si512(out + r * BLOCK + 16 * c,
                               rows == 1 ? _mm512_add_epi32(sum[0][r][c], sum[1][r][c]) : sum[0][r][c]);
}

void vnni_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *correction, int32_t *out) {
    for (; rows > 0; rows -= 4, q += 4 * row_pitch(k), out += 4 * BLOCK) switch (rows) {
            case 1: vnni_rows(1, q, k, w, correction, out); break;
            case 2: vnni_rows(2, q, k, w, correction, out); break;
            case 3: vnni_rows(3, q, k, w, correction, out); break;
            default: vnni_rows(4, q, k, w, correction, out);
        }
}
#endif
