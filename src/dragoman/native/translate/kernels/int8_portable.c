/* int8 products in plain C, for processors without a dedicated kernel. */
#include "int8_kernels.h"

void portable_block(const int8_t *q, int rows, int k, const int8_t *w, int32_t *out) {
    for (int r = 0; r < rows; r++, q += row_pitch(k), out += BLOCK) {
        memset(out, 0, BLOCK * sizeof *out);
        for (int i = 0; i < k; i += 4)
            for (int c = 0; c < BLOCK; c++)
                for (int j = 0; j < 4; j++) out[c] += (int32_t)q[i + j] * w[weight_offset(i / 4, c) + (size_t)j];
    }
}
