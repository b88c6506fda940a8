/* Intel's matrix unit (AMX): int8 products of tiles. */
#include "int8_kernels.h"

#if HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    uint8_t palette, start_row, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileShape;

int request_tiles(void) { return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) ? -1 : 0; }

void tiles_begin(void) {
    static const TileShape shape = {.palette = 1,
                                    .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                    .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shape);
}
void tiles_end(void) { _tile_release(); }

void amx_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out, int prefetch) {
    __asm__ volatile("" ::: "memory"); /* the intrinsics do not declare that they read memory */
    size_t row = row_pitch(k);
    if (rows <= 16) { /* one tile of rows, four of outputs */
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
        for (int i = 0; i < k; i += 64) {
            const int8_t *b = w + (size_t)i * BLOCK;
            if (prefetch)
                for (int line = 0; line < 64; line++) _mm_prefetch((const char *)b + PREFETCH_AHEAD + 64 * line, _MM_HINT_T0);
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
            if (prefetch)
                for (int line = 0; line < 32; line++) _mm_prefetch((const char *)b + 2 * PREFETCH_AHEAD + 64 * line, _MM_HINT_T0);
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
#else
int request_tiles(void) { return 0; }
void tiles_begin(void) {}
void tiles_end(void) {}
#endif
