// SPDX-License-Identifier: GPL-3.0-or-later
//! The privileged D-Bus service that builds, watches and removes caches.
//!
//! Requests come in through `iface`, become a [`plan`] (pure), are authorised (`auth`), and are
//! carried out step by step by `apply` with an [`engine`]; `service` holds it together.

pub mod action;
pub mod apply;
pub mod auth;
pub mod boot;
pub mod clock;
pub mod connection;
pub mod disks;
pub mod dm;
pub mod engine;
pub mod facts;
pub mod grub;
pub mod hibernation;
pub mod history;
mod iface;
mod inhibit;
pub mod initramfs;
pub mod kernels;
pub mod lifecycle;
pub mod machine;
pub mod module;
pub mod mounts;
pub mod names;
pub mod plan;
pub mod removable;
pub mod sampler;
pub mod service;
pub mod shutdown;
mod smart;
pub mod speed;
pub mod state;
pub mod stop;
pub mod superblock;
pub mod watch;
mod wipe;

#[cfg(test)]
#[path = "../sim/tests/common/bus.rs"]
mod bus;

/// Starts the log, which goes to standard error and so to the journal; `TANDEM_LOG` filters it.
pub fn log() {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("TANDEM_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,zbus=warn")),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
}

/// Does work that may wait for a disk or for a program. The other tasks of the runtime go on meanwhile, also if an `async`
/// function calls this.
pub(crate) fn waiting<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Returns on SIGTERM and SIGINT.
///
/// # Errors
/// If the process cannot follow signals.
pub async fn terminated() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A text of the kernel or of an administrator: names in it may have any encoding, and a name that is not UTF-8 must
/// not hide the rest.
///
/// # Errors
/// If the file cannot be read.
pub fn read_lossy(path: impl AsRef<std::path::Path>) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}
