// SPDX-License-Identifier: GPL-3.0-or-later
//! How the key of the kernel module is enrolled: the steps, the blue screen, the password.

use gettextrs::gettext;

use super::Task;

/// A task without a command.
fn step(title: String, subtitle: String) -> Task {
    Task {
        title,
        subtitle,
        command: String::new(),
    }
}

/// What the user does on the blue screen of the firmware. The steps quote that screen, which is always in English.
#[must_use]
pub fn blue_screen() -> Vec<Task> {
    vec![
        step(
            gettext("Press any key"),
            gettext(
                "You have ten seconds while the screen says “Press any key to perform MOK management”.",
            ),
        ),
        step(
            gettext("Choose “Enroll MOK”, then “Continue”"),
            gettext("Use the arrow keys and Enter."),
        ),
        step(
            gettext("Choose “Yes”"),
            gettext("The screen asks “Enroll the key(s)?”."),
        ),
        step(
            gettext("Type the password and press Enter"),
            gettext("You see nothing while you type. The keyboard has the US layout."),
        ),
        step(
            gettext("Choose “Reboot”"),
            gettext("After that, open Tandem again."),
        ),
    ]
}

/// The steps of the whole enrollment.
#[must_use]
pub fn enrollment_steps() -> Vec<Task> {
    vec![
        step(
            gettext("Choose a password"),
            gettext("You need it only once, right after the restart."),
        ),
        step(
            gettext("Restart the computer once"),
            gettext("A blue screen appears before the system starts."),
        ),
        step(
            gettext("Confirm on the blue screen"),
            gettext(
                "Choose “Enroll MOK”, “Continue” and “Yes”, type the password, and choose “Reboot”.",
            ),
        ),
    ]
}

/// Whether a password that is typed twice can be used, and what is wrong with the password. A second password that is
/// only the beginning of the first gets no error, because the user may still type.
#[must_use]
pub fn password_answer(first: &str, second: &str) -> (bool, String) {
    let typable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if !first.bytes().all(typable) {
        let words = gettext("Only use letters, digits and signs of a US keyboard.");
        return (false, words);
    }
    match first.len() {
        0 => (false, String::new()),
        1..8 => (false, gettext("Use at least 8 characters.")),
        8..=256 if first == second => (true, String::new()),
        8..=256 if first.starts_with(second) => (false, String::new()),
        8..=256 => (false, gettext("The two passwords differ.")),
        _ => (false, gettext("Use at most 256 characters.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_used_only_if_the_blue_screen_can_take_it() {
        for (first, second, good) in [
            ("12345678", "12345678", true),
            ("correct horse", "correct horse", true),
            ("1234567", "1234567", false),
            ("12345678", "12345679", false),
            ("schlüssel", "schlüssel", false),
            ("", "", false),
        ] {
            assert_eq!(password_answer(first, second).0, good, "{first}");
        }
        assert_eq!(password_answer("12345678", "123").1, "", "still typing");
        assert!(password_answer("12345678", "124").1.contains("differ"));
    }
}
