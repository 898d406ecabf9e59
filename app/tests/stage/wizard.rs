// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers the questions of the wizard as a person does.

use gettextrs::gettext;
use tandem_app::widgets::wizard::Wizard;

use super::hand;

/// Chooses this disk, an empty SSD, the mode that is chosen already, and the backup. Stops after `pages` of these four.
pub async fn answer(wizard: &Wizard, disk: &str, pages: usize) {
    let backup = gettext("I have a backup");
    let answers = [
        Some(disk),
        Some("Samsung SSD 870 EVO 250GB"),
        None,
        Some(backup.as_str()),
    ];
    for answer in answers.into_iter().take(pages) {
        if let Some(row) = answer {
            hand::choose(wizard, row).await;
        }
        hand::press(wizard, &gettext("_Next")).await;
    }
}
