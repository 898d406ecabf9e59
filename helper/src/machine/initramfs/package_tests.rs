// SPDX-License-Identifier: GPL-3.0-or-later
//! The scripts of the Debian package and our hook for initramfs-tools, run with programs that note how they are called.

use crate::program_for_test;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Paths that the scripts name.
const PLACES: [&str; 5] = [
    "/usr/libexec/",
    "/usr/sbin/",
    "/usr/bin/dracut",
    "/var/lib/tandem",
    "/run/systemd/system",
];
const INITRAMFS_TOOLS: [&str; 2] = ["usr/sbin/mkinitramfs", "usr/sbin/update-initramfs"];
const DRACUT: [&str; 1] = ["usr/bin/dracut"];

/// A machine below a folder.
struct Machine(tempfile::TempDir);

impl Machine {
    /// A machine with one cache, below the running system or not, and a tool that makes initial file systems.
    fn new(in_initramfs: bool, tool: &[&str]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(machine.0.path().join("run/systemd/system")).unwrap();
        let text = format!("{{ \"in_initramfs\": {in_initramfs}, \"may_be_dirty\": false }}");
        machine.put("var/lib/tandem/caches/a.cache.json", &text);
        for program in ["systemctl", "udevadm"] {
            machine.program(&format!("path/{program}"), "");
        }
        for program in tool {
            machine.program(program, "");
        }
        machine.program("usr/libexec/tandem-helper", "");
        machine.program("usr/libexec/tandem-initramfs", "");
        // Runs the program without a limit.
        machine.program("path/timeout", "shift; \"$@\"");
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program that notes its name and arguments, and then does `more`.
    fn program(&self, path: &str, more: &str) {
        let log = self.0.path().join("log");
        let note = format!("echo \"${{0##*/}} $*\" >>{}", log.display());
        let text = format!("#!/bin/sh\n{note}\n{more}\n");
        program_for_test::make(&self.0.path().join(path), &text);
    }

    /// Runs a script of the package of the programs, and returns what it said.
    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        self.run_of("tandem", script, arguments)
    }

    /// Runs a script of a package, and returns what it said.
    fn run_of(&self, package: &str, script: &str, arguments: &[&str]) -> Output {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/debian");
        let mut text = fs::read_to_string(data.join(format!("{package}.{script}"))).unwrap();
        for place in PLACES {
            text = text.replace(place, &format!("{}{place}", self.0.path().display()));
        }
        let path = format!("{}/path:/usr/bin:/bin", self.0.path().display());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(text).arg(script).args(arguments);
        shell.env("PATH", path).output().unwrap()
    }

    /// The programs that were called, but for the limit of their time.
    fn called(&self) -> Vec<String> {
        let log = fs::read_to_string(self.0.path().join("log")).unwrap_or_default();
        let limit = |line: &&str| !line.starts_with("timeout ");
        log.lines().filter(limit).map(str::to_owned).collect()
    }

    /// The programs that were called to make initial file systems.
    fn made(&self) -> Vec<String> {
        let mut called = self.called();
        called.retain(|line| line.starts_with("update-") || line.starts_with("tandem-initramfs"));
        called
    }
}

/// The calls by which a script makes initial file systems, on a machine of its own.
fn made(in_initramfs: bool, tool: &[&str], script: &str, arguments: &[&str]) -> Vec<String> {
    let machine = Machine::new(in_initramfs, tool);
    let ran = machine.run(script, arguments);
    assert!(ran.status.success(), "{script}: {ran:?}");
    machine.made()
}

#[test]
fn an_upgrade_reaches_the_initial_file_systems() {
    for arguments in [
        ["configure", "0.1.0"],
        ["configure", ""],
        ["abort-remove", ""],
        ["triggered", "tandem-module"],
    ] {
        let made = |below, tool| made(below, tool, "postinst", &arguments);
        let all = ["tandem-initramfs mkinitramfs"];
        assert_eq!(made(true, &INITRAMFS_TOOLS), all);
        assert_eq!(made(true, &DRACUT), ["tandem-initramfs dracut"]);
        // dracut may be left over beside the tool that makes what the machine starts from.
        let both = [&INITRAMFS_TOOLS[..], &DRACUT].concat();
        assert_eq!(made(true, &both), all);
        assert!(made(true, &[]).is_empty());
        assert!(made(false, &INITRAMFS_TOOLS).is_empty());
    }
    assert!(made(true, &INITRAMFS_TOOLS, "postinst", &["abort-upgrade"]).is_empty());
}

#[test]
fn a_removal_leaves_no_cache_in_the_initial_file_systems() {
    let removed = |below, tool: &[&str]| {
        let before = made(below, tool, "prerm", &["remove"]);
        [before, made(below, tool, "postrm", &["remove"])]
    };
    let nothing = || Vec::<String>::new();
    // Our hook is gone when postrm runs, and so is our program for dracut.
    let all = vec!["update-initramfs -u -k all".to_owned()];
    let without = vec!["tandem-initramfs dracut --omit tandem".to_owned()];
    assert_eq!(removed(true, &INITRAMFS_TOOLS), [nothing(), all.clone()]);
    assert_eq!(removed(true, &DRACUT), [without, nothing()]);
    let both = [&INITRAMFS_TOOLS[..], &DRACUT].concat();
    assert_eq!(removed(true, &both), [nothing(), all]);
    assert_eq!(removed(false, &INITRAMFS_TOOLS), [nothing(), nothing()]);
    for (script, arguments) in [
        ("prerm", "upgrade"),
        ("postrm", "upgrade"),
        ("postrm", "purge"),
    ] {
        assert!(made(true, &INITRAMFS_TOOLS, script, &[arguments]).is_empty());
    }
}

#[test]
fn nothing_that_fails_or_hangs_stops_the_package_manager() {
    for (script, arguments) in [
        ("postinst", ["configure", "0.1.0"]),
        ("prerm", ["remove", ""]),
        ("postrm", ["remove", ""]),
    ] {
        for tool in [&INITRAMFS_TOOLS[..], &DRACUT] {
            let machine = Machine::new(true, tool);
            for program in ["path/systemctl", "path/udevadm"] {
                machine.program(program, "echo without a limit >&2");
            }
            // In place of the limit itself.
            machine.program("path/timeout", "[ \"$1\" -gt 0 ] && exit 124");
            for program in ["usr/sbin/update-initramfs", "usr/libexec/tandem-initramfs"] {
                machine.program(program, "exit 1");
            }
            let ran = machine.run(script, &arguments);
            assert!(ran.status.success(), "{script}: {ran:?}");
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            let remakes = !machine.made().is_empty();
            assert_eq!(
                told.contains("not all initial file systems"),
                remakes,
                "{told}"
            );
            assert!(!told.contains("without a limit"), "{script}: {told}");
        }
    }
}

#[test]
fn a_removal_that_is_refused_changes_nothing() {
    let machine = Machine::new(true, &DRACUT);
    machine.program("usr/libexec/tandem-helper", "exit 1");
    assert!(!machine.run("prerm", &["remove"]).status.success());
    assert_eq!(machine.called(), ["tandem-helper --removable"]);
    // The module is needed for what is on the SSD, as the programs are. An upgrade takes nothing away.
    let of_module = |argument| machine.run_of("tandem-dkms", "prerm", &[argument]).status;
    assert!(!of_module("remove").success());
    assert!(of_module("upgrade").success());
    fs::remove_file(machine.0.path().join("usr/libexec/tandem-helper")).unwrap();
    assert!(of_module("remove").success());
}

#[test]
fn a_cache_that_is_set_up_while_the_service_ends_refuses_a_removal() {
    let machine = Machine::new(true, &DRACUT);
    let once = machine.0.path().join("once");
    let text = format!("[ ! -e {0} ] && : >{0}", once.display());
    machine.program("usr/libexec/tandem-helper", &text);
    assert!(!machine.run("prerm", &["remove"]).status.success());
    let asked = "tandem-helper --removable";
    let [stop, start] = ["stop", "start"].map(|verb| format!("systemctl {verb} tandem.service"));
    assert_eq!(machine.called(), [asked, &stop, asked, &start]);
}

/// What our hook for initramfs-tools asks for.
struct Hooked {
    /// The drivers of these devices.
    drivers: Vec<String>,
    /// These modules.
    modules: String,
    /// The records are in the initial file system.
    has_records: bool,
    /// What the hook said.
    told: String,
}

/// Runs our hook for initramfs-tools with this setting of its. `caches`: the modules that serve each cache; the kernel has all
/// but `missing`.
fn hooked(setting: &str, caches: &[&str], missing: &str) -> Hooked {
    let machine = Machine::new(true, &INITRAMFS_TOOLS);
    let root = machine.0.path();
    let log = root.join("log");
    let functions = [
        "manual_add_modules",
        "block_dev_sys_walk_mod_add",
        "copy_exec",
    ]
    .map(|name| format!("{name}() {{ echo \"{name} $*\" >>{}; }}\n", log.display()))
    .concat();
    machine.put("usr/share/initramfs-tools/hook-functions", &functions);
    let caches: String = caches.iter().map(|cache| format!(" '{cache}'")).collect();
    let export = format!(
        "shift; to=$1; shift
         for cache in {caches}; do
             lacks=
             for module in $*; do case \" $cache \" in *\" $module \"*) lacks=1;; esac; done
             [ -n \"$lacks\" ] || {{ mkdir -p \"$to\"; printf '%s\\n' $cache; }}
         done"
    );
    machine.program("usr/libexec/tandem-assemble", &export);
    machine.program("path/modinfo", &format!("[ \"$3\" != {missing} ]"));
    machine.program(
        "path/udevadm",
        "case $* in *block/sdb*) echo TANDEM_UUID=ab;; *) echo ID_FS_TYPE=ext4;; esac",
    );
    for device in ["sda", "sdb"] {
        fs::create_dir_all(root.join("sys/class/block").join(device)).unwrap();
    }
    machine.put("usr/lib/udev/rules.d/56-tandem.rules", "");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let mut text = fs::read_to_string(data.join("initramfs-tools/hooks/tandem")).unwrap();
    for place in ["/usr/", "/run/", "/sys/"] {
        text = text.replace(place, &format!("{}{place}", root.display()));
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(text).env("MODULES", setting);
    shell
        .env("version", "6.1")
        .env("DESTDIR", root.join("dest"));
    let path = format!("{}/path:/usr/bin:/bin", root.display());
    let ran = shell.env("PATH", path).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let log = fs::read_to_string(log).unwrap();
    let called = |name: &str| -> Vec<String> {
        let calls = log.lines().filter(|line| line.starts_with(name));
        calls
            .map(|line| line.replace(&root.display().to_string(), ""))
            .collect()
    };
    Hooked {
        drivers: called("block_dev"),
        modules: called("manual_add_modules").concat(),
        has_records: root.join("dest/var/lib/tandem").exists(),
        told: String::from_utf8_lossy(&ran.stderr).into_owned(),
    }
}

#[test]
fn a_small_initial_file_system_has_the_driver_of_the_ssd() {
    let ssd = ["block_dev_sys_walk_mod_add /sys/class/block/sdb"];
    assert_eq!(hooked("dep", &["dm_tandem"], "none").drivers, ssd);
    assert!(hooked("most", &["dm_tandem"], "none").drivers.is_empty());
}

#[test]
fn an_initial_file_system_has_the_records_of_the_caches_that_its_kernel_can_serve() {
    let of_kernel = "dm_cache dm_cache_smq";
    for (caches, missing, asked) in [
        (&["dm_tandem"][..], "dm_cache", Some("dm_tandem")),
        (&[of_kernel], "dm_tandem", Some(of_kernel)),
        (&[of_kernel], "dm_cache_smq", None),
        (&["dm_tandem"], "dm_tandem", None),
        (&["dm_tandem", of_kernel], "dm_tandem", Some(of_kernel)),
        (&["dm_tandem", of_kernel], "dm_cache", Some("dm_tandem")),
    ] {
        let hooked = hooked("most", caches, missing);
        assert_eq!(hooked.has_records, asked.is_some(), "{caches:?}");
        let calls = asked.map(|modules| {
            format!("manual_add_modules dm_mod {modules} crc32c_generic crc32c_intel")
        });
        assert_eq!(hooked.modules, calls.unwrap_or_default());
        let is_needed = caches.join(" ").split(' ').any(|module| module == missing);
        let warning = format!("no module {missing};");
        assert_eq!(hooked.told.contains(&warning), is_needed, "{}", hooked.told);
    }
}
