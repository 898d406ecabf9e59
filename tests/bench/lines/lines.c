// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A plugin of QEMU (version 10, interface 4): which lines of the processors' caches would go
 * from one processor to another.
 *
 * The suite (tests/module/src/bench/lines.rs) has one thread on each processor, which makes
 * the same request many times, and says by stores to a page when a request begins and ends.
 * The threads run one after another: what each request touches in the kernel is kept, and
 * replayed afterwards with the requests of all processors in turns. So the figures do not
 * depend on how the emulated processors happen to be scheduled. The suite says also which
 * processor makes the request: with one thread for all processors QEMU names to a plugin the
 * processor for which the code was translated first.
 *
 * Two figures:
 *   transfers	a load of a line that another processor has changed since this one had it, or
 *		a store to a line that another processor has; per request.
 *   exposed	lines that each request touches, and that anything in the kernel writes while
 *		the last processor makes requests of another kind.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The interface, as far as it is used. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t,
						      struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*cb)(unsigned int, qemu_plugin_meminfo_t,
						 uint64_t, void *),
				      int registers, int access, void *data);

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 4;

/* The suite's page. Each 64 bytes of it are a mark of a processor. */
#define PAGE		0x500000000000ull
#define LINE_SHIFT	6
enum mark { BEGIN, END, NEXT_KIND, BESIDE, BESIDE_ENDS, REPORT };

#define KERNEL		(1ull << 63)
#define PROCESSORS	8u
#define KINDS		2u
#define REQUESTS	128u
#define TABLE		(1u << 20)	/* lines; many more than a run touches */

struct request {
	uint64_t *lines;	/* the number of a line, and in the top bit whether it was a store */
	uint32_t count, room;
};

struct line {
	uint64_t number;	/* 0: free */
	uint64_t code;		/* the instruction that stored to it last */
	uint32_t value;
	uint32_t moved;
};

static struct request requests[KINDS][PROCESSORS][REQUESTS];
static uint32_t made[KINDS][PROCESSORS];
static struct request *now;	/* that is being made */
static uint32_t kind;
static bool is_beside;
static struct line beside_lines[TABLE], written[TABLE], table[TABLE];
static const char *out;

static void fail(const char *why)
{
	fprintf(stderr, "lines: %s\n", why);
	exit(1);
}

static struct line *find(struct line *in, uint64_t number)
{
	uint64_t at = number * 0x9e3779b97f4a7c15ull >> 44;

	for (uint32_t i = 0; i < TABLE; i++) {
		struct line *l = &in[(at + i) & (TABLE - 1)];

		if (!l->number)
			l->number = number;
		if (l->number == number)
			return l;
	}
	fail("too many lines");
	return NULL;
}

/* For the log: where to look. */
static void say(uint32_t k, const char *what, const struct line *l, uint64_t times)
{
	fprintf(stderr, "lines: kind %u, %s %#llx, %llu times, last store by %#llx\n", k, what,
		(unsigned long long)(l->number << LINE_SHIFT | KERNEL),
		(unsigned long long)times,
		(unsigned long long)find(written, l->number)->code);
}

static void add(struct request *r, uint64_t line)
{
	if (r->count == r->room) {
		r->room = r->room ? 2 * r->room : 1024;
		r->lines = realloc(r->lines, r->room * sizeof(*r->lines));
		if (!r->lines)
			fail("no memory");
	}
	r->lines[r->count++] = line;
}

/* The least accesses of a request of this processor: a timer made some requests longer. */
static uint32_t shortest(uint32_t k, uint32_t cpu)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < made[k][cpu]; i++)
		if (requests[k][cpu][i].count < least)
			least = requests[k][cpu][i].count;
	return least;
}

static bool counts(const struct request *r, uint32_t least)
{
	return r->count <= least + least / 4;
}

/* The processors that have the line, and 8 bits above, whether one of them has changed it. */
static bool moves(uint64_t access, uint32_t cpu, bool late)
{
	struct line *l = find(table, access & ~KERNEL);
	uint32_t mine = 1u << cpu, have = l->value & 0xff, changed = l->value & 0x100;
	bool moved = access & KERNEL ? have & ~mine : changed && !(have & mine);

	if (access & KERNEL)
		l->value = mine | 0x100;
	else
		l->value |= mine;
	l->moved += moved && late;
	return moved && late;
}

/* Transfers for 1000 requests, of @cpus processors in turns. */
static uint64_t transfers(uint32_t k, uint32_t cpus)
{
	uint64_t moved = 0, taken = 0;

	memset(table, 0, sizeof(table));
	for (uint32_t i = 0; i < made[k][0]; i++) {
		for (uint32_t cpu = 0; cpu < cpus; cpu++) {
			const struct request *r = &requests[k][cpu][i];
			bool late = i >= made[k][0] / 2;

			if (i >= made[k][cpu] || !counts(r, shortest(k, cpu)))
				continue;
			taken += late;
			for (uint32_t j = 0; j < r->count; j++)
				moved += moves(r->lines[j], cpu, late);
		}
	}
	for (uint32_t i = 0; i < TABLE && cpus == PROCESSORS; i++)
		if (table[i].moved > taken / 50)
			say(k, "transferred", &table[i], table[i].moved);
	return taken ? moved * 1000 / taken : 0;
}

/* Lines that every request of every processor touches, and that were written beside. */
static uint64_t exposed(uint32_t k)
{
	uint32_t taken = 0, found = 0;

	memset(table, 0, sizeof(table));
	for (uint32_t cpu = 0; cpu < PROCESSORS; cpu++) {
		uint32_t least = shortest(k, cpu);

		for (uint32_t i = 0; i < made[k][cpu]; i++) {
			const struct request *r = &requests[k][cpu][i];

			if (!counts(r, least))
				continue;
			taken++;
			for (uint32_t j = 0; j < r->count; j++) {
				struct line *l = find(table, r->lines[j] & ~KERNEL);

				/* The last request that touched the line, and how many did. */
				if (l->value >> 16 != taken)
					l->value = taken << 16 | ((l->value & 0xffff) + 1);
			}
		}
	}
	for (uint32_t i = 0; i < TABLE; i++) {
		if (!table[i].number || (table[i].value & 0xffff) != taken)
			continue;
		if (!find(beside_lines, table[i].number)->value)
			continue;
		say(k, "exposed", &table[i], 1);
		found++;
	}
	return found;
}

static void report(void)
{
	FILE *file = fopen(out, "w");

	if (!file)
		fail("the file of figures cannot be written");
	for (uint32_t k = 0; k < KINDS; k++) {
		for (uint32_t cpus = 1; cpus <= PROCESSORS; cpus *= 2)
			fprintf(file, "transfers-%u-%u %" PRIu64 "\n", k, cpus, transfers(k, cpus));
		fprintf(file, "exposed-%u %" PRIu64 "\n", k, exposed(k));
	}
	fclose(file);
}

static void marked(uint64_t offset)
{
	uint32_t cpu = (offset >> LINE_SHIFT) % PROCESSORS;

	switch ((offset >> LINE_SHIFT) / PROCESSORS) {
	case BEGIN:
		if (made[kind][cpu] == REQUESTS)
			fail("too many requests");
		now = &requests[kind][cpu][made[kind][cpu]];
		break;
	case END:
		now = NULL;
		made[kind][cpu]++;
		break;
	case NEXT_KIND:
		if (++kind == KINDS)
			fail("too many kinds of requests");
		break;
	case BESIDE:
		is_beside = true;
		break;
	case BESIDE_ENDS:
		is_beside = false;
		break;
	case REPORT:
		report();
		break;
	}
}

static void accessed(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *code)
{
	uint64_t number = (address & ~KERNEL) >> LINE_SHIFT;
	bool store = qemu_plugin_mem_is_store(info);

	if (!(address & KERNEL)) {
		if (store && address - PAGE < 4096)
			marked(address - PAGE);
		return;
	}
	if (store && (now || is_beside))
		find(written, number)->code = (uint64_t)code;
	if (is_beside && store)
		find(beside_lines, number)->value = 1;
	if (now)
		add(now, number | (store ? KERNEL : 0));
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		qemu_plugin_register_vcpu_mem_cb(insn, accessed, NO_REGISTERS, LOADS_AND_STORES,
						 (void *)qemu_plugin_insn_vaddr(insn));
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	if (argc != 1 || strncmp(argv[0], "out=", 4))
		return 1;
	out = argv[0] + 4;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
