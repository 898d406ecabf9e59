// SPDX-License-Identifier: GPL-2.0-or-later
#include "checks.h"
#include "torn.h"

#include "../words/words.h"

static const struct sim_checks checks = {
	.torn = sim_torn,
	.identity = sim_identity,
	.lives = sim_lives,
	.resized = sim_resized,
	.places = sim_places,
	.full_new = sim_full_new,
	.full_read = sim_full_read,
	.full_free = sim_full_free,
	.scenarios = words_scenarios,
	.scenario_name = words_scenario_name,
	.scenario_run = words_scenario_run,
};

const struct sim_checks *tandem_sim_checks(void)
{
	return &checks;
}
