// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows a plan, and asks whether to go on.

use crate::{Ending, emit, say, words};
use gettextrs::gettext;
use std::io::{BufRead, IsTerminal, Write};
use tandem_api::PlanReply;

pub fn show_plan(plan: &PlanReply, json: bool) {
    if json {
        emit(serde_json::json!({ "plan": plan }));
        return;
    }
    say(words::fact(&gettext("Disk:"), words::device(&plan.origin)));
    say(words::fact(
        &words::place(&plan.ssd),
        words::device(&plan.ssd),
    ));
    say(gettext("Steps:"));
    for (number, step) in plan.steps.iter().enumerate() {
        say(format_args!("  {}. {}", number + 1, words::step(step)));
    }
    for warning in &plan.warnings {
        say(words::warning(warning));
    }
}

/// Shows the plan and asks for agreement, unless `--yes` on the command line agrees already.
pub fn agree(plan: &PlanReply, yes: bool, json: bool) -> Result<(), Ending> {
    show_plan(plan, json);
    if yes { Ok(()) } else { ask(json) }
}

pub fn ask(json: bool) -> Result<(), Ending> {
    let input = std::io::stdin();
    if json || !input.is_terminal() {
        return Err(Ending::Usage(gettext(
            "No terminal to ask at: add --yes to go on.",
        )));
    }
    print!("{} ", gettext("Go on? [y/N]"));
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    let _ = input.lock().read_line(&mut answer);
    // Translators: the letter that agrees in “Go on? [y/N]”
    let letter = gettext("y");
    let answer = answer.trim().to_lowercase();
    // Translators: the word of that letter
    if [letter, gettext("yes"), "y".to_owned(), "yes".to_owned()].contains(&answer) {
        Ok(())
    } else {
        Err(Ending::Declined)
    }
}
