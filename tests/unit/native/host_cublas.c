/* What is asked of cuBLASLt, done by the host and in its memory: float32 and bfloat16, column by column.
   A call that NVIDIA's library would refuse is refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FINE = 0, NOT_INITIALISED = 1, INVALID = 7, FLOAT32 = 0, BFLOAT16 = 14 };

typedef struct { int device; } Handle;
typedef struct { int compute, scale, transposed[2]; uint32_t epilogue; const void *bias; } Description;
typedef struct { int kind; uint64_t rows, columns; int64_t leading; } Layout;
typedef struct { uint64_t workspace; uint32_t reduction; } Preference;
typedef struct { uint64_t data[8]; } Way;
typedef struct { Way way; size_t workspace; int state; float waves; int reserved[4]; } Found;

int current_device, refuses_to_start, handles, made;
void *last_stream, *last_workspace;
size_t last_bytes;

size_t cublasLtGetVersion(void) { return 5000000001; }

int cublasLtCreate(Handle **handle) {
    if (refuses_to_start) return NOT_INITIALISED;
    *handle = malloc(sizeof **handle);
    (*handle)->device = current_device;
    handles++;
    return FINE;
}

int cublasLtMatmulPreferenceCreate(Preference **preference) { return !(*preference = calloc(1, sizeof **preference)); }

int cublasLtMatmulPreferenceDestroy(Preference *preference) { return free(preference), FINE; }

int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int name, const void *value, size_t size) {
    if (name == 1 && size == 8) return memcpy(&preference->workspace, value, size), FINE;
    if (name == 3 && size == 4) return memcpy(&preference->reduction, value, size), FINE;
    return INVALID;
}

int cublasLtMatmulDescCreate(Description **description, int compute, int scale) {
    *description = calloc(1, sizeof **description);
    (*description)->compute = compute, (*description)->scale = scale;
    return compute == 68 && scale == FLOAT32 ? FINE : INVALID;
}

int cublasLtMatmulDescSetAttribute(Description *description, int name, const void *value, size_t size) {
    if ((name == 3 || name == 4) && size == 4) return memcpy(&description->transposed[name - 3], value, size), FINE;
    if (name == 7 && size == 4) return memcpy(&description->epilogue, value, size), FINE;
    if (name == 8 && size == 8) return memcpy(&description->bias, value, size), FINE;
    return INVALID;
}

int cublasLtMatrixLayoutCreate(Layout **layout, int kind, uint64_t rows, uint64_t columns, int64_t leading) {
    *layout = malloc(sizeof **layout);
    **layout = (Layout){kind, rows, columns, leading};
    return kind == FLOAT32 || kind == BFLOAT16 ? FINE : INVALID;
}

void sizes_of(const Layout *layout, uint64_t *sizes) {
    sizes[0] = layout->rows, sizes[1] = layout->columns, sizes[2] = layout->leading;
}

static int fit(const Handle *handle, const Description *how, const Layout *a, const Layout *b, const Layout *c,
               const Layout *d) {
    const Layout *all[] = {a, b, c, d};
    if (!handle || handle->device != current_device) return NOT_INITIALISED;
    for (int i = 0; i < 4; i++)
        if (all[i]->kind != a->kind || (uint64_t)all[i]->leading < all[i]->rows) return INVALID;
    uint64_t m = how->transposed[0] ? a->columns : a->rows, k = how->transposed[0] ? a->rows : a->columns;
    uint64_t n = how->transposed[1] ? b->rows : b->columns, same = how->transposed[1] ? b->columns : b->rows;
    return k == same && d->rows == m && d->columns == n && c->rows == m && c->columns == n ? FINE : INVALID;
}

/* Three ways, of which the third wants too much memory beside; and one that cannot be taken. */
int cublasLtMatmulAlgoGetHeuristic(const Handle *handle, const Description *how, const Layout *a, const Layout *b,
                                   const Layout *c, const Layout *d, const Preference *preference, int most,
                                   Found found[], int *count) {
    int refused = fit(handle, how, a, b, c, d);
    if (refused || preference->workspace != 32 << 20 || preference->reduction != 2) return refused ? refused : INVALID;
    for (*count = 0; *count < most && *count < 4; ++*count)
        found[*count] = (Found){{{*count, 0, 0, 0, 0, 0, 0, ~*count}}, 0, *count == 1 ? 15 : FINE, 1, {0}};
    return FINE;
}

int cublasLtMatmulAlgoCheck(const Handle *handle, const Description *how, const Layout *a, const Layout *b,
                            const Layout *c, const Layout *d, const Way *way, Found *result) {
    int refused = fit(handle, how, a, b, c, d);
    if (refused || way->data[0] > 3 || way->data[7] != (uint64_t)~(int)way->data[0]) return refused ? refused : INVALID;
    *result = (Found){*way, way->data[0] == 3 ? (32 << 20) + 1 : 32 << 20, way->data[0] == 1 ? 15 : FINE, 1, {0}};
    return FINE;
}

static float get(const void *base, int kind, uint64_t place) {
    float value;
    uint32_t bits = kind == BFLOAT16 ? (uint32_t)((const uint16_t *)base)[place] << 16 : ((const uint32_t *)base)[place];
    memcpy(&value, &bits, 4);
    return value;
}

static void put(void *base, int kind, uint64_t place, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (kind == BFLOAT16) ((uint16_t *)base)[place] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    else ((uint32_t *)base)[place] = bits;
}

int cublasLtMatmul(const Handle *handle, const Description *how, const float *alpha, const void *a, const Layout *of_a,
                   const void *b, const Layout *of_b, const float *beta, const void *c, const Layout *of_c, void *d,
                   const Layout *of_d, const Way *way, void *workspace, size_t bytes, void *stream) {
    Found found;
    int refused = cublasLtMatmulAlgoCheck(handle, how, of_a, of_b, of_c, of_d, way, &found);
    if (refused || found.state || *alpha != 1 || *beta != 0 || (how->epilogue != 1 && how->epilogue != 6))
        return refused ? refused : INVALID;
    uint64_t inner = how->transposed[0] ? of_a->rows : of_a->columns;
    for (uint64_t row = 0; row < of_d->rows; row++)
        for (uint64_t column = 0; column < of_d->columns; column++) {
            double sum = 0;
            for (uint64_t k = 0; k < inner; k++)
                sum += (double)get(a, of_a->kind, how->transposed[0] ? k + row * of_a->leading : row + k * of_a->leading) *
                       get(b, of_b->kind, how->transposed[1] ? column + k * of_b->leading : k + column * of_b->leading);
            if (how->epilogue == 6) sum += get(how->bias, of_d->kind, row);
            put(d, of_d->kind, row + column * of_d->leading, how->epilogue == 6 && sum < 0 ? 0 : sum);
        }
    last_stream = stream, last_workspace = workspace, last_bytes = bytes;
    made++;
    return FINE;
}
