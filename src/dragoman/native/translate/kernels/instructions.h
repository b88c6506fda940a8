/* The instructions that this build has for int8 products. */
#pragma once

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
#if defined(__AVX2__) && !HAS_AMX && !VNNI_ROWS && !HAS_SHORT_DOTS
#define SPLITS_SIGNS 1 /* products of unsigned and signed bytes only, in pairs that must fit into 16 bits */
#else
#define SPLITS_SIGNS 0
#endif
