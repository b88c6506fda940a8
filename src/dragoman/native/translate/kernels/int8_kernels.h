/* The int8 kernels: which ones this build has, and what each computes. */
#pragma once
#include "linear.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && !defined(NARROW) /* NARROW: to test the shorter vectors there */
#define VNNI_ROWS 4 /* up to this many rows are multiplied without tiles */
#else
#define VNNI_ROWS 0
#endif
#if defined(__AMX_INT8__) && defined(__linux__) && !defined(NARROW)
#define HAS_AMX 1
#else
#define HAS_AMX 0
#endif
#if !HAS_AMX && !VNNI_ROWS && (defined(__AVXVNNI__) || defined(NARROW))
#define HAS_SHORT_DOTS 1
#else
#define HAS_SHORT_DOTS 0
#endif

#define CACHED_INPUTS 256 /* inputs whose weights stay in the L1 cache while all rows pass */

/* Offset in a block of the four weights of inputs 4 g .. 4 g + 3 and output c; inlined into every kernel. */
ALWAYS size_t weight_offset(int g, int c) {
#if HAS_AMX || NEON /* in tiles */
    return (size_t)(g / 16) * 4096 + (size_t)(c / 16) * 1024 + (size_t)(g % 16) * 64 + (size_t)(c % 16) * 4;
#else
    return (size_t)g * 4 * BLOCK + (size_t)c * 4;
#endif
}

/* Whether the kernel for this many rows uses unsigned activations. */
ALWAYS int uses_unsigned_bytes(int rows) { return HAS_SHORT_DOTS || (VNNI_ROWS > 0 && (!HAS_AMX || rows <= VNNI_ROWS)); }

/* Linux grants tile registers only on request, and not if a thread's signal stack is too small for them. 0: granted, or not
needed by this build. */
EXPORT int request_tiles(void);

/* The shape of tiles is a state of each thread. */
void tiles_begin(void);
void tiles_end(void);

/* Each kernel multiplies up to ROW_BLOCK rows of q by one block, into out[row][BLOCK]. */
void amx_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out, int prefetch);
void vnni_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *correction, int32_t *out);
void avx2_block(const int8_t *q, int rows, int k, const int8_t *w, const int32_t *correction, int32_t *out);
void neon_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out);
void portable_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out);

/* The instructions that neon_block found on this processor when the library was loaded. */
enum { WIDENING, DOT_PRODUCTS, MATRIX_PRODUCTS };
extern int neon_instructions;
