/* Matrix products: weights in eight bits with a scale for each output, activations in eight bits with a scale for each
row; or both in float.

Sums of eight-bit products are exact, and float sums go through the inputs one by one, so that a row's result does not
depend on the rows beside it nor on the kernel that made it. Weights lie in blocks of 64 outputs, read from front to
back: in eight bits as tiles, [block][input / 64][4 tiles][16 fours of inputs][16 outputs][4 inputs]; in float as
[block][input][64 outputs]. */
#pragma once
#include "memory.h"
#include "vectors.h"

#define BLOCK 64  /* outputs that are made together */
#define VECTORS (BLOCK / LANES)
#define TILE 32   /* rows that are made together */
#define AHEAD 4096 /* bytes between what is read and what is asked for in advance */

typedef struct {
    int k, n; /* inputs and outputs, each filled up to a multiple of 64 with zeros */
    int8_t *w8;
    float *wf;
    float *scale, *bias;
    int32_t *start; /* -128 times the sum of an output's weights: what bytes without a sign add to it */
} Linear;

/* Rows that enter a product. */
typedef struct {
    int8_t *q;
    float *scale;
    float *x;
    int flipped;
} Rows;

/* From row to row of activations: not a power of two, at which rows would push each other out of the cache. */
ALWAYS size_t pitch(int k) { return (size_t)k + 64; }

/* Where in a block the four weights of inputs 4 g .. 4 g + 3 and output c lie. */
ALWAYS size_t four_at(int g, int c) { return (size_t)(g / 16) * 4096 + (size_t)(c / 16) * 1024 + (size_t)(g % 16) * 64 + (size_t)(c % 16) * 4; }

ALWAYS int padded(int n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && !defined(NARROW) /* NARROW: to try the shorter vectors there */
#define VNNI_ROWS 4 /* up to so many rows go without tiles */
#else
#define VNNI_ROWS 0
#endif
#if defined(__AMX_INT8__) && defined(__linux__) && !defined(NARROW)
#include <sys/syscall.h>
#include <unistd.h>
#define TILES 1
typedef struct {
    uint8_t palette, start_row, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileShape;

/* Linux gives tiles only to a process that asks, and not where a thread's signal stack is too small for them; 0: given. */
static int tiles_asked(void) { return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) ? -1 : 0; }

/* Their shape is a state of the thread. */
static void tiles_begin(void) {
    static const TileShape shape = {.palette = 1,
                                    .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                    .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shape);
}
static void tiles_end(void) { _tile_release(); }
#else
#define TILES 0
static int tiles_asked(void) { return 0; }
static void tiles_begin(void) {}
static void tiles_end(void) {}
#endif
#if !TILES && !VNNI_ROWS && (defined(__AVXVNNI__) || defined(NARROW))
#define NARROW_DOTS 1
#else
#define NARROW_DOTS 0
#endif

/* Whether so many rows are multiplied by a kernel whose activations have no sign. */
ALWAYS int flips(int rows) { return NARROW_DOTS || (VNNI_ROWS > 0 && (!TILES || rows <= VNNI_ROWS)); }

/* x to eight bits: row r is scale[r] * q[r]. */
static void quantize(const float *x, int rows, int width, Rows *to) {
    to->flipped = flips(rows);
    to->x = NULL;
    for (int r = 0; r < rows; r++) {
        const float *row = x + (size_t)r * width;
        Floats most = splat(0.0f);
        for (int i = 0; i < width; i += LANES) {
            Floats v = *(const Floats *)(row + i);
            most = larger(most, larger(v, -v));
        }
        float top = top_of(most);
        float factor = top > 1e-30f ? 127.0f / top : 0.0f;
        to->scale[r] = top / 127.0f;
        Bytes flip = (Bytes){} + (int8_t)(to->flipped ? -128 : 0);
        for (int i = 0; i < width; i += 16) *(Bytes *)(to->q + (size_t)r * pitch(width) + i) = bytes_of(row + i, factor) ^ flip;
    }
}

/* Each kernel: up to TILE rows of q times one block, into out[row][BLOCK]. */
#if TILES
static void tiles_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out, int fresh) {
    __asm__ volatile("" ::: "memory"); /* the intrinsics do not say that they read memory */
    size_t row = pitch(k);
    if (rows <= 16) { /* one tile of rows, four of outputs */
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
        for (int i = 0; i < k; i += 64) {
            const int8_t *b = w + (size_t)i * BLOCK;
            if (fresh)
                for (int line = 0; line < 64; line++) _mm_prefetch((const char *)b + AHEAD + 64 * line, _MM_HINT_T0);
            _tile_loadd(4, q + i, row);
            _tile_loadd(5, b, 64); _tile_loadd(6, b + 1024, 64); _tile_loadd(7, b + 2048, 64);
            _tile_dpbssd(0, 4, 5); _tile_dpbssd(1, 4, 6); _tile_dpbssd(2, 4, 7);
            _tile_loadd(5, b + 3072, 64);
            _tile_dpbssd(3, 4, 5);
        }
        _tile_stored(0, out, 4 * BLOCK); _tile_stored(1, out + 16, 4 * BLOCK);
        _tile_stored(2, out + 32, 4 * BLOCK); _tile_stored(3, out + 48, 4 * BLOCK);
        return;
    }
    for (int half = 0; half < 2; half++) { /* two tiles of rows, two of outputs, twice */
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
        for (int i = 0; i < k; i += 64) {
            const int8_t *b = w + (size_t)i * BLOCK + 2048 * half;
            if (fresh)
                for (int line = 0; line < 32; line++) _mm_prefetch((const char *)b + 2 * AHEAD + 64 * line, _MM_HINT_T0);
            _tile_loadd(6, b, 64); _tile_loadd(4, q + i, row);
            _tile_dpbssd(0, 4, 6);
            _tile_loadd(7, b + 1024, 64);
            _tile_dpbssd(1, 4, 7);
            _tile_loadd(5, q + i + 16 * row, row);
            _tile_dpbssd(2, 5, 6); _tile_dpbssd(3, 5, 7);
        }
        int32_t *o = out + 32 * half;
        _tile_stored(0, o, 4 * BLOCK); _tile_stored(1, o + 16, 4 * BLOCK);
        _tile_stored(2, o + 16 * BLOCK, 4 * BLOCK); _tile_stored(3, o + 16 * BLOCK + 16, 4 * BLOCK);
    }
}
#endif

#if VNNI_ROWS
ALWAYS void vnni_rows(const int rows, const int8_t *q, int k, const int8_t *w, const int32_t *start, int32_t *out) {
    __m512i sum[2][4][4];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++) {
            sum[0][r][c] = _mm512_load_si512(start + 16 * c);
            sum[1][r][c] = _mm512_setzero_si512();
        }
    for (int i = 0; i < k; i += 64)
        for (int g = 0; g < 16; g++) {
            const int8_t *b = w + (size_t)i * BLOCK + 64 * g;
            int side = rows == 1 ? g & 1 : 0; /* the sums of a single row would wait for each other */
            __m512i weights[4];
            for (int c = 0; c < 4; c++) {
                _mm_prefetch((const char *)b + AHEAD + 1024 * c, _MM_HINT_T0);
                weights[c] = _mm512_load_si512(b + 1024 * c);
            }
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, q + r * pitch(k) + i + 4 * g, 4);
                __m512i a = _mm512_set1_epi32(four);
                for (int c = 0; c < 4; c++) sum[side][r][c] = _mm512_dpbusd_epi32(sum[side][r][c], a, weights[c]);
            }
        }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++)
            _mm512_store_si512(out + r * BLOCK + 16 * c,
                               rows == 1 ? _mm512_add_epi32(sum[0][r][c], sum[1][r][c]) : sum[0][r][c]);
}

static void vnni_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *start, int32_t *out) {
    for (; rows > 0; rows -= 4, q += 4 * pitch(k), out += 4 * BLOCK) switch (rows) {
            case 1: vnni_rows(1, q, k, w, start, out); break;
            case 2: vnni_rows(2, q, k, w, start, out); break;
            case 3: vnni_rows(3, q, k, w, start, out); break;
            default: vnni_rows(4, q, k, w, start, out);
        }
}
#endif

#if NEON
#include "neon.h"
#elif defined(__AVX2__) && !TILES && !VNNI_ROWS
#include "avx2.h"
#elif !TILES
static void plain_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out) {
    for (int r = 0; r < rows; r++, q += pitch(k), out += BLOCK) {
        memset(out, 0, BLOCK * sizeof *out);
        for (int i = 0; i < k; i += 4)
            for (int c = 0; c < BLOCK; c++)
                for (int j = 0; j < 4; j++) out[c] += (int32_t)q[i + j] * w[four_at(i / 4, c) + (size_t)j];
    }
}
#endif

#define DEEP 64 /* inputs whose weights stay in the first cache while all rows pass */
#define PASSES (VECTORS > SUMS / 4) /* whether four rows have more sums than registers, and go through the weights in passes */

/* One to four rows of x times `deep` inputs of a block, added to what `out` holds unless they are the first. */
ALWAYS void float_rows(const int rows, const float *x, int k, int deep, const float *w, float *out, int first) {
    const int fit = rows == 1 ? SUMS : rows == 2 ? SUMS / 2 : SUMS / 4, wide = VECTORS < fit ? VECTORS : fit;
    const int ahead = PASSES ? 4 * DEEP * BLOCK : AHEAD;
    for (int from = 0; from < VECTORS; from += wide) {
        Floats sum[4][VECTORS] = {};
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide && !first; c++) sum[r][c] = ((const Floats *)(out + r * BLOCK))[from + c];
        for (int i = 0; i < deep; i++) {
            const Floats *b = (const Floats *)(w + (size_t)i * BLOCK) + from;
            for (int c = 0; c < wide; c += 16 / LANES) __builtin_prefetch((const char *)(b + c) + ahead, 0, 3);
            for (int r = 0; r < rows; r++)
                for (int c = 0; c < wide; c++) sum[r][c] += x[(size_t)r * k + i] * b[c];
        }
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++) ((Floats *)(out + r * BLOCK))[from + c] = sum[r][c];
    }
}

static void float_block(const float *x, int rows, int k, const float *w, float *out) {
    const int most = PASSES ? DEEP : k;
    for (int i = 0; i < k; i += most, w += most * BLOCK, x += most) {
        const float *at = x;
        float *to = out;
        int left = rows, deep = k - i < most ? k - i : most;
        if (PASSES) float_rows(1, at, k, deep, w, to, !i), left--, at += k, to += BLOCK; /* reads from front to back */
        for (; left >= 4; left -= 4, at += 4 * (size_t)k, to += 4 * BLOCK) float_rows(4, at, k, deep, w, to, !i);
        if (left == 3) float_rows(3, at, k, deep, w, to, !i);
        if (left == 2) float_rows(2, at, k, deep, w, to, !i);
        if (left == 1) float_rows(1, at, k, deep, w, to, !i);
    }
}

/* Rows [first, first + rows) of `in`, at most TILE, times block `block`: out[row][BLOCK], the bias added. */
static void product_block(const Linear *l, const Rows *in, int first, int rows, int block, float *out) {
    const Floats *bias = (const Floats *)(l->bias + block * BLOCK), *scale = (const Floats *)(l->scale + block * BLOCK);
    if (l->wf) {
        float_block(in->x + (size_t)first * l->k, rows, l->k, l->wf + (size_t)block * BLOCK * l->k, out);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < VECTORS; c++) ((Floats *)(out + r * BLOCK))[c] += bias[c];
        return;
    }
    const int8_t *q = in->q + first * pitch(l->k), *w = l->w8 + (size_t)block * BLOCK * l->k;
    int32_t *whole = (int32_t *)out; /* each number is replaced by what it stands for */
#if VNNI_ROWS
    if (in->flipped)
        vnni_block(q, rows, l->k, w, l->start + block * BLOCK, whole);
    else
#endif
#if TILES
        tiles_block(q, rows, l->k, w, whole, first == 0);
#elif NEON
        neon_block(q, rows, l->k, w, whole);
#elif defined(__AVX2__) && !VNNI_ROWS
        narrow_block(q, rows, l->k, w, l->start + block * BLOCK, whole);
#else
        plain_block(q, rows, l->k, w, whole);
#endif
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < VECTORS; c++) {
            Ints *at = (Ints *)(whole + r * BLOCK) + c;
            *(Floats *)at = __builtin_convertvector(*at, Floats) * (in->scale[first + r] * scale[c]) + bias[c];
        }
}
