/* The instructions that this processor and its system offer to a variant of the libraries (native/variants.py). */
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };

static int has_bits(unsigned leaf, unsigned subleaf, int which, unsigned bits) {
    unsigned r[4];
    return __get_cpuid_count(leaf, subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) && (r[which] & bits) == bits;
}

/* Whether the system saves these registers of a thread. */
static int saves_registers(unsigned states) {
    if (!has_bits(1, 0, ECX, 1u << 27)) return 0; /* OSXSAVE: xgetbv may be used */
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & states) == states;
}

/* x86-64-v3 */
static int has_avx2(void) {
    return saves_registers(0x6) /* XMM, YMM */
        && has_bits(1, 0, ECX, 1u << 12 | 1u << 22 | 1u << 23 | 1u << 28 | 1u << 29) /* FMA, MOVBE, POPCNT, AVX, F16C */
        && has_bits(7, 0, EBX, 1u << 3 | 1u << 5 | 1u << 8)                          /* BMI1, AVX2, BMI2 */
        && has_bits(0x80000001, 0, ECX, 1u << 5);                                    /* LZCNT */
}

static int has_avx_vnni(void) { return has_avx2() && has_bits(7, 1, EAX, 1u << 4); }

/* x86-64-v4 and dot products */
static int has_avx512_vnni(void) {
    return has_avx2() && saves_registers(0xe6) /* and mask registers, ZMM */
        && has_bits(7, 0, EBX, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) /* AVX-512 F, DQ, CD, BW, VL */
        && has_bits(7, 0, ECX, 1u << 11);
}

static int has_avx512_bf16(void) { return has_avx512_vnni() && has_bits(7, 1, EAX, 1u << 5); }

static int has_amx(unsigned kind) { return saves_registers(0x600e6) && has_bits(7, 0, EDX, 1u << 24 | kind); }
#endif

/* Whether this processor can run a variant. */
EXPORT int supports(const char *variant) {
#if defined(__x86_64__)
    if (!strcmp(variant, "avx2")) return has_avx2();
    if (!strcmp(variant, "avx_vnni")) return has_avx_vnni();
    if (!strcmp(variant, "avx512_vnni")) return has_avx512_vnni();
    if (!strcmp(variant, "avx512_bf16")) return has_avx512_bf16();
    if (!strcmp(variant, "amx")) return has_avx512_vnni() && has_amx(1u << 25);       /* int8 */
    if (!strcmp(variant, "amx_bf16")) return has_avx512_bf16() && has_amx(1u << 22);
#endif
    return !strcmp(variant, "portable");
}

EXPORT int self_test(void) { return !supports("portable") || supports("none of them"); }
