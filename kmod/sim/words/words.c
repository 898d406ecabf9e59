// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What readers and changers do with one slot, as the engine does it, and what
 * must never be seen.
 *
 * The SSD's content of the slot is one number for a quarter: the frame and the
 * version that the disk had. TORN stands for a quarter that is being rewritten
 * with no reader allowed to look.
 *
 * Accesses: a reader loads the content atomically (relaxed). A task that
 * rewrites the content, under the promise that there is no pin, does so
 * plainly. So the race detector demands that the word itself orders the two. A
 * fill of quarters that an old pin may still read stores atomically: the engine
 * allows that (engine.c), each sector being old or new.
 */
#include "words.h"

#include "schedule.h"
#include "word.h"

#define TORN	0xffffffffu
#define FRAMES	3
#define load(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)

enum verb { END, READ, WRITE, DISCARD, FILL, AGE };

struct deed {
	enum verb verb;
	u32 frame;
	unsigned int mask;
};

static const struct scenario {
	const char *name;
	u64 word;
	struct deed deeds[SCHEDULE_TASKS];
} scenarios[] = {
#define LIVE(tag, valid) (TD_W_LIVE | (tag) | (u64)(valid) << TD_W_VALID_SHIFT)
#define PINS(n) ((u64)(n) * TD_W_PIN)
	{ "two reads beside an eviction", LIVE(1, 15),
	  { { READ, 1, 15 }, { READ, 1, 3 }, { FILL, 2, 0 } } },
	{ "two reads beside a write", LIVE(1, 15),
	  { { READ, 1, 1 }, { WRITE, 1, 1 }, { READ, 1, 3 } } },
	{ "a read beside a write and a fill", LIVE(1, 3),
	  { { READ, 1, 1 }, { WRITE, 1, 3 }, { FILL, 1, 0 } } },
	{ "a read beside a discard and a fill", LIVE(1, 15),
	  { { READ, 1, 5 }, { DISCARD, 1, 15 }, { FILL, 1, 0 } } },
	{ "a read beside a discard and an eviction", LIVE(1, 15),
	  { { READ, 1, 5 }, { DISCARD, 1, 15 }, { FILL, 2, 0 } } },
	{ "a read beside a write and an eviction", LIVE(1, 15),
	  { { READ, 1, 1 }, { WRITE, 1, 1 }, { FILL, 2, 0 } } },
	{ "a read beside two writes", LIVE(1, 15),
	  { { READ, 1, 3 }, { WRITE, 1, 1 }, { WRITE, 1, 3 } } },
	{ "a read beside two writes of neighbours", LIVE(1, 15),
	  { { READ, 1, 3 }, { WRITE, 1, 1 }, { WRITE, 1, 2 } } },
	{ "two writes of neighbours beside an eviction", LIVE(1, 15),
	  { { WRITE, 1, 1 }, { WRITE, 1, 2 }, { FILL, 2, 0 } } },
	{ "two reads beside a write and an eviction", LIVE(1, 15),
	  { { READ, 1, 1 }, { READ, 1, 1 }, { WRITE, 1, 1 }, { FILL, 2, 0 } } },
	{ "two reads beside a write and a discard", LIVE(1, 15),
	  { { READ, 1, 1 }, { READ, 1, 2 }, { WRITE, 1, 1 }, { DISCARD, 1, 3 } } },
	{ "two fills of different frames", 0,
	  { { FILL, 1, 0 }, { FILL, 2, 0 }, { READ, 1, 1 }, { READ, 2, 1 } } },
	{ "a fill of a free slot beside a write", 0,
	  { { FILL, 1, 0 }, { WRITE, 1, 1 }, { READ, 1, 1 }, { READ, 1, 2 } } },
	{ "reads with all pins taken", LIVE(1, 15) | PINS(0x800),
	  { { READ, 1, 1 }, { READ, 1, 1 } } },
	{ "reads with one pin left", LIVE(1, 15) | PINS(0x7ff),
	  { { READ, 1, 1 }, { READ, 1, 1 }, { READ, 1, 1 } } },
	{ "reads with one pin left beside a discard", LIVE(1, 15) | PINS(0x7ff),
	  { { READ, 1, 1 }, { READ, 1, 2 }, { DISCARD, 1, 1 } } },
	{ "an eviction while all pins are taken", LIVE(1, 15) | PINS(0x800),
	  { { READ, 1, 1 }, { FILL, 2, 0 }, { DISCARD, 1, 15 } } },
	{ "reads beside ageing", LIVE(1, 15) | TD_W_RECENCY,
	  { { READ, 1, 1 }, { READ, 1, 1 }, { AGE, 0, 0 }, { AGE, 0, 0 } } },
};

static struct shared {
	struct td_word word;
	u32 content[4];
	u32 disk[FRAMES][4];	/* version on the disk */
	u32 acked[FRAMES][4];	/* version of the last write that ended */
	bool lock;		/* the bucket's */
	bool quarters[4];	/* a write of this quarter is under way */
	u32 writers[FRAMES];	/* writes under way */
	u32 owners;		/* of them, those that own the slot */
	bool undrained;		/* the owner of the slot waits for pins */
	bool filling;
	bool cancelled;
} shared;

static u64 pins;
static const char *wrong;

static void must(bool condition, const char *why)
{
	if (!condition && !load(&wrong))
		store(&wrong, why);
}

static u32 value(u32 frame, u32 version)
{
	return frame << 16 | version;
}

static void drained(void)
{
	schedule_lock(&shared.lock);
	if (td_word_unhold(&shared.word))
		store(&shared.undrained, false);
	schedule_unlock(&shared.lock);
}

static void do_read(u32 frame, unsigned int want)
{
	u32 least[4];
	u64 dirty;

	schedule_point();
	for (int q = 0; q < 4; q++)
		least[q] = (u32)schedule_observe(load(&shared.acked[frame][q]));
	/* As in the engine: one attempt, and then a loop that looks again. */
	if (!td_word_pin_once(&shared.word, frame, want, &dirty) &&
	    !td_word_pin(&shared.word, frame, want, &dirty))
		return;
	if (schedule_exact) {
		u64 v = plain_load(&shared.word.a);

		must(!(v & TD_W_HELD),
		     "a read pinned a slot whose owner waits for the last pin");
		must((v & TD_W_PINS) <= TD_W_PINS_FULL,
		     "a read pinned a slot with all pins taken");
	}
	for (int q = 0; q < 4; q++) {
		u32 v, most;

		if (!(want & 1u << q))
			continue;
		schedule_point();
		v = (u32)schedule_observe(__atomic_load_n(&shared.content[q],
							  __ATOMIC_RELAXED));
		most = (u32)schedule_observe(load(&shared.disk[frame][q]));
		must(v != TORN, "a read saw a quarter that was being rewritten");
		must(v == TORN || v >> 16 == frame, "a read saw another frame");
		must(v == TORN || (v & 0xffff) >= least[q],
		     "a read saw data older than a write that had ended");
		must(v == TORN || (v & 0xffff) <= most,
		     "a read saw data that the disk does not have yet");
	}
	if (td_word_unpin(&shared.word))
		drained();
}

/* Stores to the SSD; the caller knows that no reader looks. */
static void rewrite(unsigned int mask, const u32 *values)
{
	schedule_point();
	for (int q = 0; q < 4; q++)
		if (mask & 1u << q)
			shared.content[q] = TORN;
	schedule_point();
	for (int q = 0; q < 4; q++)
		if (mask & 1u << q)
			shared.content[q] = values[q];
}

/* Writes of common quarters come one after the other (engine.c, E2). */
static void lock_quarters(unsigned int mask)
{
	for (int q = 0; q < 4; q++)
		if (mask & 1u << q)
			schedule_lock(&shared.quarters[q]);
}

static void unlock_quarters(unsigned int mask)
{
	for (int q = 0; q < 4; q++)
		if (mask & 1u << q)
			schedule_unlock(&shared.quarters[q]);
}

/*
 * Under the bucket's lock: the quarters are unreadable from here on. True: the
 * write will store them, alone in the slot or beside another write.
 */
static bool plan_write(u32 frame, unsigned int mask, bool with_copy)
{
	u64 v = td_word_load(&shared.word);
	bool joins = shared.owners > 0;
	bool store_it = with_copy;
	u64 now;

	if (!td_word_has(v, frame))
		return false;
	if (shared.filling) {
		shared.cancelled = true;
		store_it = false;
	} else if (joins && v & TD_W_HELD) {
		store_it = false;
	}
	if (!store_it) {
		td_word_forget(&shared.word, mask, &now);
		return false;
	}
	v = td_word_own(&shared.word, mask, !joins);
	if (joins && v & TD_W_PINS)
		return false;
	if (v & TD_W_HELD)
		store(&shared.undrained, true);
	shared.owners++;
	return true;
}

static void do_write(u32 frame, unsigned int mask, bool with_copy)
{
	bool stored, waits;
	u32 values[4];

	lock_quarters(mask);
	schedule_lock(&shared.lock);
	shared.writers[frame]++;
	stored = plan_write(frame, mask, with_copy);
	waits = stored && load(&shared.undrained);
	schedule_unlock(&shared.lock);
	schedule_observe(stored);
	schedule_observe(waits);
	schedule_point();
	for (int q = 0; q < 4; q++) {
		u32 version = load(&shared.disk[frame][q]);

		if (mask & 1u << q)
			store(&shared.disk[frame][q], ++version);
		values[q] = value(frame, (u32)schedule_observe(version));
	}
	if (stored) {
		if (waits) {
			schedule_lock(&shared.undrained);
			schedule_unlock(&shared.undrained);
		}
		rewrite(mask, values);
	}
	schedule_lock(&shared.lock);
	shared.writers[frame]--;
	if (stored && --shared.owners)
		td_word_publish(&shared.word, mask, 0);
	else if (stored)
		td_word_disown(&shared.word, mask, 0);
	schedule_unlock(&shared.lock);
	schedule_point();
	for (int q = 0; q < 4; q++)
		if (mask & 1u << q)
			store(&shared.acked[frame][q], values[q] & 0xffff);
	unlock_quarters(mask);
}

static void do_fill(u32 frame)
{
	unsigned int missing = TD_QUARTERS;
	bool mine = false, taken = false;
	u32 values[4];
	u64 v;

	schedule_lock(&shared.lock);
	v = td_word_load(&shared.word);
	if (schedule_observe(shared.writers[frame])) {
		/* The fill could be older than the write: no fill now. */
	} else if (!td_word_has(v, frame)) {
		mine = td_word_take(&shared.word, frame, &v);
		taken = mine;
	} else if ((v & TD_W_STATE) == TD_W_LIVE) {
		missing = TD_QUARTERS & ~td_word_valid(v);
		td_word_own(&shared.word, 0, false);
		mine = true;
	}
	if (mine) {
		must(!shared.filling && !shared.owners, "two requests own the slot");
		shared.filling = true;
		shared.cancelled = false;
	}
	schedule_unlock(&shared.lock);
	if (!mine)
		return;
	schedule_point();
	for (int q = 0; q < 4; q++)
		values[q] = value(frame, (u32)schedule_observe(
					load(&shared.disk[frame][q])));
	if (taken) {
		rewrite(missing, values);
	} else {
		schedule_point();
		for (int q = 0; q < 4; q++)
			if (missing & 1u << q)
				__atomic_store_n(&shared.content[q], values[q],
						 __ATOMIC_RELAXED);
	}
	schedule_lock(&shared.lock);
	schedule_observe(shared.cancelled);
	td_word_disown(&shared.word, shared.cancelled ? 0 : missing, 0);
	shared.filling = false;
	schedule_unlock(&shared.lock);
}

static void perform(const struct deed *deed)
{
	switch (deed->verb) {
	case READ:
		do_read(deed->frame, deed->mask);
		break;
	case WRITE:
	case DISCARD:
		do_write(deed->frame, deed->mask, deed->verb == WRITE);
		break;
	case FILL:
		do_fill(deed->frame);
		break;
	case AGE:
		schedule_lock(&shared.lock);
		td_word_age(&shared.word);
		schedule_unlock(&shared.lock);
		break;
	case END:
		break;
	}
}

void words_reset(uint32_t scenario)
{
	u64 word = scenarios[scenario].word;

	memset(&shared, 0, sizeof(shared));
	plain_store(&shared.word.a, word);
	pins = word & TD_W_PINS;
	wrong = NULL;
	for (int q = 0; q < 4; q++)
		shared.content[q] = td_word_valid(word) & 1u << q ?
					value((u32)td_word_tag(word), 0) : TORN;
}

uint32_t words_tasks(uint32_t scenario)
{
	uint32_t n = 0;

	while (n < SCHEDULE_TASKS && scenarios[scenario].deeds[n].verb != END)
		n++;
	return n;
}

void words_task(uint32_t scenario, uint32_t task)
{
	perform(&scenarios[scenario].deeds[task]);
}

const char *words_wrong(void)
{
	u64 v = plain_load(&shared.word.a);
	u32 frame = (u32)td_word_tag(v);

	if (load(&wrong))
		return wrong;
	if (!(v & TD_W_STATE)) {
		must(!(v & ~(TD_W_PENDING | TD_W_STALE)),
		     "a free slot remembers something");
		return wrong;
	}
	must((v & TD_W_STATE) == TD_W_LIVE, "the slot is still owned");
	must(!(v & TD_W_HELD), "the slot is still held");
	must((v & TD_W_PINS) == pins, "pins were lost or forged");
	must(frame < FRAMES && !(v & TD_W_DIRTY), "the word is damaged");
	for (int q = 0; q < 4 && frame < FRAMES; q++)
		if (td_word_valid(v) & 1u << q)
			must(shared.content[q] ==
			     value(frame, shared.disk[frame][q]),
			     "the copy differs from the disk");
	return wrong;
}

uint32_t words_scenarios(void)
{
	return sizeof(scenarios) / sizeof(scenarios[0]);
}

const char *words_scenario_name(uint32_t scenario)
{
	return scenarios[scenario].name;
}

static void run_deed(void *deed)
{
	perform(deed);
}

uint32_t words_scenario_run(uint32_t scenario, uint8_t *choices,
			    uint8_t *widths, size_t given, size_t room,
			    bool (*met)(void *context, uint64_t state),
			    void *context, size_t *taken, const char **why)
{
	struct schedule s = {
		.run = run_deed, .count = words_tasks(scenario),
		.shared = &shared, .shared_size = sizeof(shared),
		.met = met, .context = context, .choices = choices,
		.widths = widths, .given = given, .room = room,
	};

	for (uint32_t i = 0; i < s.count; i++)
		s.arguments[i] = (void *)&scenarios[scenario].deeds[i];
	words_reset(scenario);
	switch (schedule_run(&s, taken)) {
	case SCHEDULE_STUCK:
		*why = load(&wrong) ? wrong : "somebody waits for ever";
		return WORDS_WRONG;
	case SCHEDULE_MET:
		*why = load(&wrong);
		return *why ? WORDS_WRONG : WORDS_MET;
	default:
		*why = words_wrong();
		return *why ? WORDS_WRONG : WORDS_GOOD;
	}
}
