#include "kernels/int8_kernels.h"
#include "translate.h"

const char *instructions(void) {
#if HAS_AMX
    return "amx";
#elif VNNI_ROWS
    return "avx512_vnni";
#elif HAS_SHORT_DOTS
    return "avx_vnni";
#elif NEON
    return neon_instructions == MATRIX_PRODUCTS ? "i8mm" : neon_instructions == DOT_PRODUCTS ? "dotprod" : "portable";
#elif defined(__AVX2__)
    return "avx2";
#else
    return "portable";
#endif
}

int self_test(void) {
    enum { K = 320, N = 64 }; /* deeper than one pass of a kernel */
    static _Alignas(64) float w[N * K], x[ROW_BLOCK * K], y[ROW_BLOCK * BLOCK];
    static _Alignas(64) int8_t q[ROW_BLOCK * (2 * K + 64)];
    static float scale[ROW_BLOCK];
    static int from_row[N];
    if (request_tiles()) return 1;
    tiles_begin();
    for (int i = 0; i < N * K; i++) w[i] = (float)((i * 7919) % 255 - 127);
    for (int i = 0; i < ROW_BLOCK * K; i++) x[i] = (float)((i * 104729) % 253 - 126);
    for (int i = 0; i < N; i++) from_row[i] = i, w[i * K] = 127.0f; /* scales are 1, and nothing is rounded */
    for (int i = 0; i < ROW_BLOCK; i++) x[i * K] = 127.0f;
    for (int i = 0; i < K; i++) x[i] = w[i] = 127.0f, w[K + i] = -127.0f; /* the largest sums */
    for (int quantized = 0; quantized < 2; quantized++) {
        Linear l;
        Region r = {0};
        linear_alloc(&l, &r, K, N, quantized);
        if (region_open(&r, r.used)) return 2;
        linear_alloc(&l, &r, K, N, quantized);
        Packing p = {.to = &l, .w = w, .columns = K, .from_row = from_row};
        if (pack_all(&p, 1, 2)) return 2;
        for (int rows = 1; rows <= ROW_BLOCK; rows++) {
            Activations in = {.q = q, .scale = scale, .x = x};
            if (quantized) quantize(x, rows, K, &in);
            matmul_block(&l, &in, 0, rows, 0, y);
            for (int i = 0; i < rows * N; i++) {
                double sum = 0.0;
                for (int k = 0; k < K; k++) sum += (double)x[i / N * K + k] * w[i % N * K + k];
                if (sum != (double)y[i]) return 3;
            }
        }
        region_close(&r);
    }
    tiles_end();
    uint16_t half[LANES];
    const Floats *floats = (const Floats *)(x + K); /* integers, exact in half precision */
    store_half(half, *floats);
    Floats again = load_half(half);
    for (int i = 0; i < LANES && HALF; i++)
        if (again[i] != (*floats)[i]) return 4;
    return 0;
}
