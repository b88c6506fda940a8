/* The int8 kernels. */
#pragma once
#include "linear.h"

#if VNNI_ROWS || defined(__aarch64__)
#define CACHED_INPUTS 256 /* inputs whose weights stay in the L1 cache while all rows pass */
#else
#define CACHED_INPUTS 128
#endif

/* Whether the kernel for this many rows uses unsigned activations. */
ALWAYS int uses_unsigned_bytes(int rows) { return HAS_SHORT_DOTS || (VNNI_ROWS > 0 && (!HAS_AMX || rows <= VNNI_ROWS)); }

/* Splits the numbers in the second half of a row of q, `k` of them, into sizes and flips; see activation_of. */
void split_signs(int8_t *row, int k);

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
