// SPDX-License-Identifier: GPL-3.0-or-later
//! The privileged D-Bus service that builds, watches and removes caches.
//!
//! The rooms, each of which may use those before it: [`model`], [`decide`], [`machine`], and then [`start`], and [`host`] with
//! [`kinds`] and [`service`], which do not know each other. `helper/README.md` is the tour.
//!
//! Without the feature `service` only the rooms are there that the programs of the start need: nothing that talks on the
//! bus, and no asynchronous runtime.

pub mod decide;
#[cfg(feature = "service")]
pub mod host;
#[cfg(feature = "service")]
pub mod kinds;
pub mod machine;
pub mod model;
#[cfg(test)]
mod program_for_test;
#[cfg(feature = "service")]
pub mod service;
pub mod start;

/// What is logged unless `TANDEM_LOG` says otherwise.
const LOGGED: &str = if cfg!(feature = "service") {
    "info,zbus=warn"
} else {
    "info"
};

/// Starts the log, which goes to standard error and so to the journal; `TANDEM_LOG` filters it.
pub fn log() {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("TANDEM_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOGGED)),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
}

/// Does work that may wait for a disk or for a program. The other tasks of the runtime go on meanwhile, also if an `async`
/// function calls this.
pub(crate) fn waiting<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "service")]
    {
        use tokio::runtime::{Handle, RuntimeFlavor};
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
            return tokio::task::block_in_place(work);
        }
    }
    work()
}

#[cfg(feature = "service")]
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

/// The bytes of hex digits; what is no pair of digits is left out.
pub fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

/// A text of the kernel or of an administrator: names in it may have any encoding, and a name that is not UTF-8 must
/// not hide the rest.
///
/// # Errors
/// If the file cannot be read.
pub fn read_lossy(path: impl AsRef<std::path::Path>) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}
