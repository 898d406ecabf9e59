/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What core takes from its surroundings, in user space.
 *
 * The kernel's twin is linux/env/env.h; the include path chooses. Both give:
 * fixed-width integers, little-endian conversions, one 64-bit atomic, counters,
 * crc32c, memcpy and friends. Nothing here sleeps, allocates or locks.
 */
#ifndef TANDEM_ENV_H
#define TANDEM_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef uint16_t __le16;
typedef uint32_t __le32;
typedef uint64_t __le64;

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define env_noinline	__attribute__((__noinline__))
#define env_inline	inline __attribute__((__always_inline__))

/*
 * As few as can be, so that the simulator meets all that comes between two steps (ledger.h),
 * and its short runs go beyond (marks.c). Measurements take the kernel's numbers.
 */
#ifndef ENV_STEP_SLOTS
#define ENV_STEP_SLOTS	1u
#define ENV_STEP_MARKS	9u
#define ENV_LONE_SWEEPS	1u
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define cpu_to_le32(x)	((__le32)(x))
#define cpu_to_le64(x)	((__le64)(x))
#else
#define cpu_to_le32(x)	((__le32)__builtin_bswap32(x))
#define cpu_to_le64(x)	((__le64)__builtin_bswap64(x))
#endif
#define le32_to_cpu(x)	((u32)cpu_to_le32(x))
#define le64_to_cpu(x)	((u64)cpu_to_le64(x))

struct env_atomic64 {
	u64 v;
};

/* Relaxed load. */
static inline u64 env_load(const struct env_atomic64 *a)
{
	return __atomic_load_n(&a->v, __ATOMIC_RELAXED);
}

/* Relaxed store. */
static inline void env_store(struct env_atomic64 *a, u64 v)
{
	__atomic_store_n(&a->v, v, __ATOMIC_RELAXED);
}

/* Fully ordered where it succeeds; where it fails, *old is what was there. */
static inline bool env_cas(struct env_atomic64 *a, u64 *old, u64 new)
{
	return __atomic_compare_exchange_n(&a->v, old, new, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Fully ordered; returns the new value. */
static inline u64 env_sub_return(struct env_atomic64 *a, u64 n)
{
	return __atomic_sub_fetch(&a->v, n, __ATOMIC_SEQ_CST);
}

/* Number of the lowest bit that is set; @v is not 0. */
static inline u32 env_first_bit(u64 v)
{
	return (u32)__builtin_ctzll(v);
}

/* One access to what another thread may change meanwhile; no order. */
#define env_peek(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define env_poke(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELAXED)

/* Counters: an array of TD_NR_COUNTERS numbers that wrap (used goes down). */
typedef u64 *env_counters;

static inline void env_count(env_counters c, unsigned int which, u64 delta)
{
	__atomic_fetch_add(&c[which], delta, __ATOMIC_RELAXED);
}

#if defined(__x86_64__) && !defined(__CHECKER__)
#define ENV_HAS_CRC32C
/* Of whole words; returns how many bytes that were. */
__attribute__((__target__("sse4.2")))
static inline size_t env_crc32c_words(u32 *crc, const u8 *p, size_t len)
{
	u64 sum = *crc, word;
	size_t done = 0;

	for (; len - done >= sizeof(word); done += sizeof(word)) {
		memcpy(&word, p + done, sizeof(word));
		sum = __builtin_ia32_crc32di(sum, word);
	}
	*crc = (u32)sum;
	return done;
}
#endif

/* crc32c without inversions, as the kernel's crc32c(): chain through crc. */
static inline u32 env_crc32c(u32 crc, const void *data, size_t len)
{
	const u8 *p = data;

#ifdef ENV_HAS_CRC32C
	if (__builtin_cpu_supports("sse4.2")) {
		size_t done = env_crc32c_words(&crc, p, len);

		p += done;
		len -= done;
	}
#endif
	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
	}
	return crc;
}

#endif
