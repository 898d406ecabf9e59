// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks on the network.

use super::*;

#[test]
fn an_ssd_on_the_network_is_refused() {
    refuses(Kind::SsdOnNetwork, "sdb", |s| {
        s.at("sdb").ident.network = true
    });
    refuses(Kind::SsdOnNetwork, "sdb", |s| {
        let ssd = s.at("sdb");
        ssd.ident.network = true;
        ssd.partitioned = true;
        ssd.table_type = "gpt".into();
        s.spec.partition_bytes = 8 * GIB;
    });
}

#[test]
fn a_disk_on_the_network_needs_an_identity_and_is_warned_of() {
    let unknown = |s: &mut Scene| {
        let disk = s.at("sda1");
        disk.ident.network = true;
        disk.ident.hardware.clear();
        disk.ident.part_uuid.clear();
    };
    refuses(Kind::ExportUnknown, "sda1", unknown);
    // A partition is known by its own UUID.
    let partition = |s: &mut Scene| {
        unknown(s);
        s.at("sda1").ident.part_uuid = "aa-01".into();
    };
    let warnings = Scene::new().with(partition).plan().unwrap().reply.warnings;
    assert!(warnings.iter().any(|w| w.kind == WarningKind::Network));
}

#[test]
fn write_back_is_refused_for_a_disk_on_the_network() {
    let scene = Scene::new().with(|s| s.at("sda1").ident.network = true);
    let refused = RefusedMode {
        mode: Mode::Writeback,
        reason: ModeRefusal::Network,
    };
    assert_eq!(scene.plan().unwrap().reply.refused_modes, [refused]);
    for mode in [Mode::Writethrough, Mode::Writearound] {
        assert!(scene_in(mode).plan().is_ok());
    }
    let failure = scene_in(Mode::Writeback).plan().unwrap_err();
    assert_eq!(failure.kind, Kind::ModeRefused);
    assert_eq!(failure.name, ModeRefusal::Network.as_str());
}

fn scene_in(mode: Mode) -> Scene {
    Scene::new().with(|s| {
        s.at("sda1").ident.network = true;
        s.spec.mode = mode;
    })
}

// promise 21: programs/tandem_helper::decide::plan::tests::network::a_disk_on_the_network_starts_cold
#[test]
fn a_disk_on_the_network_starts_cold() {
    let mut pair = crate::model::action::Pair::nowhere(Mode::Writethrough);
    let mut disk = pair.origin.clone();
    assert!(!pair.starts_cold(&disk));
    disk.network = true;
    assert!(pair.starts_cold(&disk));
    disk.network = false;
    pair.copies_stale = true;
    assert!(pair.starts_cold(&disk));
}
