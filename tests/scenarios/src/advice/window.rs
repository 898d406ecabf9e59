// SPDX-License-Identifier: GPL-3.0-or-later
//! The advisor by clicks in the real app: the right to watch is refused and granted, both services end under the
//! window, and the watch is given up.

use anyhow::{Result, ensure};

use super::{COUNT, PATIENCE, READS, wait_for};
use crate::demo::{drive, show_failure, start_app};
use crate::scene::Scene;
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::image::PASSWORD;
use tandem_harness::layer::Run;
use tandem_harness::report::Report;

/// A rule by which nobody may choose which disks are watched.
const RULE: &str = "/etc/polkit-1/rules.d/10-watch.rules";
/// Script that puts the rule in force. Without it, the app's process would have to authenticate, which is not exit
/// status 1.
const REFUSE: &str = r#"cat >RULE <<END
polkit.addRule(function(action) {
    if (action.id == "org.tandemcache.Tandem1.watch-disk")
        return polkit.Result.NO;
});
END
for try in $(seq 100); do CHECK; [ $? = 1 ] && exit 0; sleep 0.2; done; exit 1"#;
/// Script that takes the rule out of force.
const GRANT: &str =
    "rm RULE; for try in $(seq 100); do CHECK; [ $? != 1 ] && exit 0; sleep 0.2; done; exit 1";
/// Script that asks polkit whether the app may choose which disks are watched.
const CHECK: &str =
    "pkcheck --action-id org.tandemcache.Tandem1.watch-disk --process $(pgrep -u anna -x tandem)";
/// A script that ends both services, each in its own way, and waits until they are back without a call of the script.
const BOTH_END: &str = "old=$(systemctl show --value -p MainPID tandem) && systemctl kill --signal=KILL tandem && \
    systemctl restart udisks2 && for try in $(seq 150); do new=$(systemctl show --value -p MainPID tandem); \
    [ $new != 0 ] && [ $new != $old ] && systemctl is-active --quiet tandem && exit 0; sleep 0.2; done; exit 1";
/// Script that waits until no disk is watched, and says what the service tells.
const GIVEN_UP: &str = "for try in $(seq 100); do told=$(tandemctl --json advice) || exit 1; \
    case $told in *'\"advice\":[]'*) break;; esac; sleep 0.2; done; echo \"$told\"";

/// The case.
pub fn by_clicks(scene: &mut Scene, run: &Run) -> Result<()> {
    let page = run.cx.target.join("vm-advice");
    let mut report = Report::new(&page, "Would an SSD help?")?;
    let result = clicks(scene, &mut report);
    if let Err(error) = &result {
        run.note(&show_failure(&mut scene.vm, &mut report, error));
    }
    report.finish()?;
    result
}

fn clicks(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let click =
        |scene: &mut Scene, report: &mut Report, what: &str| drive(&mut scene.vm, report, what);
    report.chapter("The right is refused");
    start_app(&mut scene.vm, report)?;
    click(scene, report, "press 'Would an SSD help Archive*'")?;
    click(scene, report, "wait 'Find Out Before You Buy'")?;
    let refuse = REFUSE.replace("RULE", RULE).replace("CHECK", CHECK);
    scene.vm.agent.sh(&refuse, SHORT)?;
    click(scene, report, "press 'Watch This Disk'")?;
    click(
        scene,
        report,
        "wait '*Authentication failed or was canceled.*'",
    )?;
    click(scene, report, "show --shot 01-refused")?;
    click(scene, report, "press Close")?;
    let grant = GRANT.replace("RULE", RULE).replace("CHECK", CHECK);
    scene.vm.agent.sh(&grant, SHORT)?;

    report.chapter("The disk is watched");
    click(scene, report, "press 'Watch This Disk'")?;
    let question = format!("authenticate 'Authenticate to choose whether*' {PASSWORD}");
    click(scene, report, &format!("{question} --shot 02-question"))?;
    click(scene, report, "wait 'Too Early to Say'")?;
    scene.vm.agent.sh(READS, LONG)?;
    scene.vm.agent.sh(&wait_for(COUNT), PATIENCE)?;
    click(
        scene,
        report,
        "wait 'Reads from the SSD, by Size of the Cache'",
    )?;
    click(scene, report, "show --shot 03-watched")?;

    report.chapter("Both services end");
    scene.vm.agent.sh(BOTH_END, SHORT)?;
    // A killed service has lost the newest reads, and the window shows the state of before until it has asked the new
    // service.
    scene.vm.agent.sh(READS, LONG)?;
    scene.vm.agent.sh(&wait_for(COUNT), PATIENCE)?;
    click(scene, report, "wait 'Too Early to Say'")?;
    click(
        scene,
        report,
        "wait 'Reads from the SSD, by Size of the Cache'",
    )?;
    report.step("the window shows the watch as before");

    report.chapter("The watch is given up");
    click(scene, report, "press 'Stop Watching…'")?;
    click(scene, report, "press 'Stop and Forget'")?;
    let told = scene.vm.agent.sh(GIVEN_UP, SHORT)?;
    ensure!(told.contains("\"advice\":[]"), "the watch goes on: {told}");
    click(scene, report, "wait 'Find Out Before You Buy'")?;
    scene
        .vm
        .as_user("systemctl --user stop tandem-app", SHORT)
        .map(drop)
}
