/* Products of eight-bit numbers by vectors of 256 bits, as most laptops have them: by dot products where the processor
has these (AVX-VNNI), else by pairs. A part of linear.h. */
#pragma once
#define NARROW_ROWS (NARROW_DOTS ? 3 : 2) /* that go together: with their sums they fill the registers */
#if NARROW_DOTS && defined(__AVXVNNI__)
#define DOT _mm256_dpbusd_avx_epi32
#elif NARROW_DOTS /* the same of a processor that has longer vectors too: to try this way there */
#define DOT _mm256_dpbusd_epi32
#endif

/* One to three rows of q times one block; `start` is what bytes without a sign add to the sums. */
ALWAYS void narrow_rows(const int rows, const int8_t *q, int k, const int8_t *w, const int32_t *start, int32_t *out) {
    const int wide = rows == 1 ? 8 : 4;
    for (int from = 0; from < 8; from += wide) {
        __m256i sum[3][8];
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++)
                sum[r][c] = NARROW_DOTS ? _mm256_load_si256((const __m256i *)(start + 8 * (from + c))) : _mm256_setzero_si256();
        for (int i = 0; i < k; i += 4) {
            const int8_t *at = w + four_at(i / 4, 8 * from);
            __m256i a[3];
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, q + r * pitch(k) + i, 4);
                a[r] = _mm256_set1_epi32(four);
            }
            for (int c = 0; c < wide; c++) {
                const int8_t *line = at + 1024 * (c / 2);
                if (c % 2 == 0) _mm_prefetch((const char *)line + AHEAD, _MM_HINT_T0);
                __m256i b = _mm256_load_si256((const __m256i *)(line + 32 * (c % 2)));
                for (int r = 0; r < rows; r++) {
#if NARROW_DOTS
                    sum[r][c] = DOT(sum[r][c], a[r], b);
#else
                    /* Both are within 127, so that two products fit 16 bits. */
                    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a[r]), _mm256_sign_epi8(b, a[r]));
                    sum[r][c] = _mm256_add_epi32(sum[r][c], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
                }
            }
        }
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++) _mm256_storeu_si256((__m256i *)(out + r * BLOCK + 8 * (from + c)), sum[r][c]);
    }
}

static void narrow_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *start, int32_t *out) {
    for (; rows > 0; rows -= NARROW_ROWS, q += NARROW_ROWS * pitch(k), out += NARROW_ROWS * BLOCK)
        switch (rows < NARROW_ROWS ? rows : NARROW_ROWS) {
            case 1: narrow_rows(1, q, k, w, start, out); break;
            case 2: narrow_rows(2, q, k, w, start, out); break;
            default: narrow_rows(3, q, k, w, start, out);
        }
}
