// Products of float32 matrices, rounded to bfloat16 and summed in float32: by the matrix unit of Intel's processors (AMX),
// or by the dot products of long vectors (AVX-512 BF16), which AMD's have too.
//
// PyTorch has them too, but its kernels crash with an illegal instruction on virtual machines that hide the CPUID leaves
// for AMX, although the unit works. Also, operands stay float32 in memory here, and nothing else changes its type.
// Both are packed into tiles of 1 KB and multiplied tile by tile. Each element of the result is one sum in a fixed order:
// the bits do not depend on the number of threads.

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__linux__)

#define _GNU_SOURCE
#include <dlfcn.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIDE = 16, DEEP = 32, TILE = SIDE * DEEP };  // a tile: 16 rows or columns, 32 terms of the sum

typedef uint16_t bf16;

#ifdef __AMX_BF16__
// Linux grants tile registers on request (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); 0: granted.
EXPORT int request_tiles(void) { return (int)syscall(SYS_arch_prctl, 0x1023, 18); }

static void tiles_begin(void) {
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) shape.bytes[i] = 64, shape.rows[i] = SIDE;
    _tile_loadconfig(&shape);
}

static void tiles_end(void) { _tile_release(); }

// block[32][32] = a b over `depth` tiles: two tiles of rows by two of columns, so each loaded tile is used twice.
static void multiply(const bf16 *a0, const bf16 *a1, const bf16 *b0, const bf16 *b1, long depth, float block[32][32]) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (long k = 0; k < depth; k++) {
        _tile_loadd(4, a0 + k * TILE, 64);
        _tile_loadd(6, b0 + k * TILE, 64);
        _tile_loadd(5, a1 + k * TILE, 64);
        _tile_loadd(7, b1 + k * TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, block[0], 128);
    _tile_stored(1, block[0] + SIDE, 128);
    _tile_stored(2, block[SIDE], 128);
    _tile_stored(3, block[SIDE] + SIDE, 128);
}
#else
EXPORT int request_tiles(void) { return 0; }
static void tiles_begin(void) {}
static void tiles_end(void) {}

// block[32][32] = a b over `depth` tiles: eight rows by two vectors of columns at a time, whose sums half fill the registers.
static void multiply(const bf16 *a0, const bf16 *a1, const bf16 *b0, const bf16 *b1, long depth, float block[32][32]) {
    for (int top = 0; top < 32; top += 8) {
        const bf16 *a = (top < SIDE ? a0 : a1) + top % SIDE * DEEP;
        __m512 sum[8][2];
        for (int y = 0; y < 8; y++) sum[y][0] = sum[y][1] = _mm512_setzero_ps();
        for (long k = 0; k < depth * TILE; k += TILE)
            for (int pair = 0; pair < SIDE; pair++) {
                const __m512bh left = (__m512bh)_mm512_load_si512(b0 + k + pair * DEEP);
                const __m512bh right = (__m512bh)_mm512_load_si512(b1 + k + pair * DEEP);
                for (int y = 0; y < 8; y++) {
                    int32_t two;
                    memcpy(&two, a + k + y * DEEP + 2 * pair, 4);
                    const __m512bh both = (__m512bh)_mm512_set1_epi32(two);
                    sum[y][0] = _mm512_dpbf16_ps(sum[y][0], both, left);
                    sum[y][1] = _mm512_dpbf16_ps(sum[y][1], both, right);
                }
            }
        for (int y = 0; y < 8; y++) {
            _mm512_store_ps(block[top + y], sum[y][0]);
            _mm512_store_ps(block[top + y] + SIDE, sum[y][1]);
        }
    }
}
#endif

// Transpose 16 x 16 pairs of bfloat16.
static inline void transpose(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

static inline long min_long(long a, long b) { return a < b ? a : b; }
static inline __mmask16 first_lanes(long n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (1u << n) - 1; }

// An operand in memory. One dimension, `across`, remains in the result; k is summed over. Elements are adjacent along
// one of them, and `stride` apart along the other.
typedef struct {
    const float *at;
    long stride, across, k;
    int k_adjacent, left;
} Matrix;

// One tile of an operand, with zeros beyond its edges. The left operand needs pairs along k in rows, the right one in
// columns: two of the four cases need a transpose of what is in memory.
static void pack_tile(const Matrix *m, long across, long k, bf16 *tile) {
    __m512i r[16];
    long wide = m->across - across, tall = m->k - k;
    if (m->k_adjacent) {
        __mmask16 low = first_lanes(tall), high = first_lanes(tall - 16);
        for (int i = 0; i < 16; i++) {
            const float *row = m->at + (across + i) * m->stride + k;
            __m512 x = _mm512_maskz_loadu_ps(i < wide ? low : 0, row);
            __m512 y = _mm512_maskz_loadu_ps(i < wide ? high : 0, row + 16);
            r[i] = (__m512i)_mm512_cvtne2ps_pbh(y, x);
        }
    } else {
        const __m512i low_half = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        const __m512i weave = _mm512_or_si512(low_half, _mm512_slli_epi32(_mm512_add_epi32(low_half, _mm512_set1_epi32(16)), 16));
        __mmask16 here = first_lanes(wide);
        for (int i = 0; i < 16; i++) {
            const float *row = m->at + (k + 2 * i) * m->stride + across;
            __m512 x = _mm512_maskz_loadu_ps(2 * i < tall ? here : 0, row);
            __m512 y = _mm512_maskz_loadu_ps(2 * i + 1 < tall ? here : 0, row + m->stride);
            r[i] = _mm512_permutexvar_epi16(weave, (__m512i)_mm512_cvtne2ps_pbh(y, x));
        }
    }
    if (m->k_adjacent != m->left) transpose(r);
    for (int i = 0; i < 16; i++) _mm512_store_si512(tile + i * DEEP, r[i]);
}

// Store a finished block, bypassing the caches where possible: a plain store would read the line first.
static void store_block(float block[32][32], float *c, long stride, long tall, long wide, const float *bias, int add, int streaming) {
    for (int half = 0; half < 2; half++) {
        __mmask16 here = first_lanes(wide - 16 * half);
        __m512 more = bias ? _mm512_maskz_loadu_ps(here, bias + 16 * half) : _mm512_setzero_ps();
        for (long y = 0; y < tall; y++) {
            float *at = c + y * stride + 16 * half;
            __m512 sum = _mm512_add_ps(_mm512_load_ps(block[y] + 16 * half), more);
            if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(here, at));
            if (streaming && here == 0xffff) _mm512_stream_ps(at, sum);
            else _mm512_mask_storeu_ps(at, here, sum);
        }
    }
}

// Memory for packed tiles, kept by each calling thread: fresh pages at each call would cost as much as the product.
static bf16 *scratch(int which, size_t bytes) {
    static __thread struct { void *at; size_t bytes; } buffers[2];
    const size_t huge = 2u << 20;
    if (buffers[which].bytes <= bytes) {
        bytes = (bytes / huge + 1) * huge;
        free(buffers[which].at);
        buffers[which].at = aligned_alloc(huge, bytes);
        buffers[which].bytes = buffers[which].at ? bytes : 0;
        if (buffers[which].at) madvise(buffers[which].at, bytes, MADV_HUGEPAGE);
    }
    return buffers[which].at;
}

// A product in two phases: pack both operands, then multiply. Each is split into one share per thread.
typedef struct {
    Matrix left, right;
    long rows, columns, depth;  // in tiles
    bf16 *a, *b;
    float *c;
    long stride;
    const float *bias;
    int add, shares;
    atomic_int next;
} Product;

static void pack_share(Product *p, int share) {
    for (long i = p->rows * share / p->shares; i < p->rows * (share + 1) / p->shares; i++)
        for (long j = 0; j < p->depth; j++) pack_tile(&p->left, i * SIDE, j * DEEP, p->a + (i * p->depth + j) * TILE);
    for (long i = p->columns * share / p->shares; i < p->columns * (share + 1) / p->shares; i++)
        for (long j = 0; j < p->depth; j++) pack_tile(&p->right, i * SIDE, j * DEEP, p->b + (i * p->depth + j) * TILE);
}

static void multiply_share(Product *p, int share) {
    const long m = p->left.across, n = p->right.across, depth = p->depth;
    const long fitting = 512 / (depth ? depth : 1) & ~1L, band = fitting < 2 ? 2 : fitting;  // rows that stay in the L2 cache
    const long bands = (p->rows + band - 1) / band, pairs = p->columns / 2, tasks = bands * pairs;
    const int streaming = !p->add && m * n > 1 << 18 && p->stride % 16 == 0 && (uintptr_t)p->c % 64 == 0;
    tiles_begin();
    for (long task = tasks * share / p->shares; task < tasks * (share + 1) / p->shares; task++) {
        const long top = task / pairs * band, j = task % pairs * 2;
        const bf16 *b0 = p->b + j * depth * TILE;
        for (long i = top; i < min_long(p->rows, top + band); i += 2) {
            float block[32][32] __attribute__((aligned(64)));
            const bf16 *a0 = p->a + i * depth * TILE;
            multiply(a0, a0 + depth * TILE, b0, b0 + depth * TILE, depth, block);
            store_block(block, p->c + i * SIDE * p->stride + j * SIDE, p->stride, min_long(32, m - i * SIDE),
                min_long(32, n - j * SIDE), p->bias ? p->bias + j * SIDE : 0, p->add, streaming);
        }
    }
    _mm_sfence();
    tiles_end();
}

static void pack_shares(void *product) {
    Product *p = product;
    for (int share; (share = atomic_fetch_add(&p->next, 1)) < p->shares;) pack_share(p, share);
}

static void multiply_shares(void *product) {
    Product *p = product;
    for (int share; (share = atomic_fetch_add(&p->next, 1)) < p->shares;) multiply_share(p, share);
}

// Run `work` in PyTorch's own threads, those of the OpenMP library that it has loaded: a second pool would compete with
// them. Without it, the caller does all shares.
static void in_parallel(void (*work)(void *), Product *p) {
    typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);
    union {
        void *at;
        Parallel call;
    } parallel = {p->shares > 1 ? dlsym(RTLD_DEFAULT, "GOMP_parallel") : NULL};
    atomic_store(&p->next, 0);
    if (parallel.at) parallel.call(work, p, (unsigned)p->shares, 0);
    else work(p);
}

// c[m][n] = left[m][k] right[k][n] + bias[n], or added to c; returns 0, or 1 if memory runs out.
EXPORT int product(long m, long n, long k, const float *left, long left_stride, int left_k_adjacent, const float *right,
                   long right_stride, int right_k_adjacent, float *c, long stride, const float *bias, int add, int threads) {
    Product p = {
        .left = {left, left_stride, m, k, left_k_adjacent, 1}, .right = {right, right_stride, n, k, right_k_adjacent, 0},
        .rows = (m + 31) / 32 * 2, .columns = (n + 31) / 32 * 2, .depth = (k + DEEP - 1) / DEEP,
        .c = c, .stride = stride, .bias = bias, .add = add, .shares = threads < 1 ? 1 : threads,
    };
    p.a = scratch(0, (size_t)p.rows * p.depth * TILE * sizeof(bf16));
    p.b = scratch(1, (size_t)p.columns * p.depth * TILE * sizeof(bf16));
    if (!p.a || !p.b) return 1;
    in_parallel(pack_shares, &p);
    in_parallel(multiply_shares, &p);
    return 0;
}

EXPORT int self_test(void) {
    enum { M = 35, N = 50, K = 70 };
    static float left[M * K], right[K * N], c[M * N];
    if (request_tiles()) return 1;
    for (int i = 0; i < M * K; i++) left[i] = (float)(i * 7 % 11 - 5);  // small integers, exact in bfloat16
    for (int i = 0; i < K * N; i++) right[i] = (float)(i * 5 % 13 - 6);
    if (product(M, N, K, left, K, 1, right, N, 0, c, N, 0, 0, 1)) return 2;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += left[i * K + k] * right[k * N + j];
            if (sum != c[i * N + j]) return 3;
        }
    return 0;
}

#else

#error this processor has neither a matrix unit (AMX) nor dot products (AVX-512 BF16) for bfloat16, or the compiler does not know them

#endif
