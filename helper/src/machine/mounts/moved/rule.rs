// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the rule of polkit with an authority that is a test's own.

use rquickjs::{Context, Runtime};

const RULE: &str =
    include_str!("../../../../../data/polkit-1/rules.d/org.tandemcache.Tandem.rules");
const UNMOUNT: &str = "org.freedesktop.udisks2.filesystem-unmount-others";

/// The parts of the authority that a rule can use. The program says yes only of anna and dm-0.
const AUTHORITY: &str = r#"
var rules = [], spawned = [];
var polkit = {
    Result: { YES: "yes", NOT_HANDLED: "not handled" },
    addRule: function(rule) { rules.push(rule); },
    spawn: function(argv) {
        spawned.push(argv.join(" "));
        if (argv.length != 4 || argv[2] != "/dev/dm-0" || argv[3] != "anna") throw "exit status 1";
        return "";
    }
};
"#;

/// What the rule answers, and what it has run. `subject` and `device` are in JavaScript.
fn asked(action: &str, device: &str, subject: &str) -> (String, String) {
    let question = format!(
        "{AUTHORITY}{RULE}\nif (rules.length != 1) throw \"one rule\";\nrules[0]({{ id: \"{action}\", lookup: function(key) {{ return key == \"device\" ? {device} : \"x\"; }} }}, {subject})"
    );
    let context = Context::full(&Runtime::new().unwrap()).unwrap();
    context.with(|js| {
        let answer: String = js.eval(question).unwrap();
        (answer, js.eval("spawned.join(\";\")").unwrap())
    })
}

fn subject(user: &str, local: bool, active: bool) -> String {
    format!("{{ user: \"{user}\", local: {local}, active: {active} }}")
}

#[test]
fn the_user_of_a_moved_mount_who_sits_at_the_machine_may_unmount_it() {
    let (answer, ran) = asked(UNMOUNT, "\"/dev/dm-0\"", &subject("anna", true, true));
    assert_eq!(answer, "yes");
    assert_eq!(
        ran,
        "/usr/libexec/tandem-probe --may-unmount /dev/dm-0 anna"
    );
}

#[test]
fn a_remote_or_inactive_user_is_asked_for_a_password() {
    for (local, active) in [(false, true), (true, false), (false, false)] {
        let (answer, ran) = asked(UNMOUNT, "\"/dev/dm-0\"", &subject("anna", local, active));
        assert_eq!(answer, "not handled", "local {local}, active {active}");
        assert_eq!(ran, "", "nothing is run for a stranger");
    }
}

#[test]
fn whatever_the_program_does_not_confirm_is_not_allowed() {
    let anna = subject("anna", true, true);
    for (device, who) in [
        ("\"/dev/sda1\"", &anna),
        ("undefined", &anna),
        ("\"/dev/dm-0\"", &subject("ben", true, true)),
    ] {
        let (answer, ran) = asked(UNMOUNT, device, who);
        assert_eq!(answer, "not handled", "{device} {who}");
        assert!(!ran.is_empty());
    }
    for action in [
        "org.freedesktop.udisks2.filesystem-mount",
        "org.tandemcache.Tandem1.remove",
    ] {
        let (answer, ran) = asked(action, "\"/dev/dm-0\"", &anna);
        assert_eq!(
            (answer.as_str(), ran.as_str()),
            ("not handled", ""),
            "{action}"
        );
    }
}
