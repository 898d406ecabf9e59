// SPDX-License-Identifier: GPL-3.0-or-later
//! The privileged D-Bus service that builds, watches and removes caches.

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tandem_helper::host::device_mapper::DeviceMapper;
use tandem_helper::kinds;
use tandem_helper::machine::store::{FOLDER, Store};
use tandem_helper::model::removal::UNDER_WAY;
use tandem_helper::service::Service;
use tandem_helper::start::{kernel_caches, removable};

/// Builds, watches and removes SSD caches; started by D-Bus.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Folder of the records; by default STATE_DIRECTORY or /var/lib/tandem
    #[arg(long)]
    state: Option<PathBuf>,
    /// Start no service: say why the programs must not be removed from this machine now, and fail if so
    #[arg(long)]
    removable: bool,
}

impl Arguments {
    fn folder(&self) -> PathBuf {
        let standard = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        let chosen = self.state.clone().or_else(standard);
        chosen.unwrap_or_else(|| PathBuf::from(FOLDER))
    }
}

/// Threads for calls of the kernel that may take long; with the workers below `TasksMax=` of the unit.
const BLOCKING_THREADS: usize = 32;

/// How long calls of the kernel may take that are under way when the service ends.
const LAST_CALLS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    tandem_helper::log();
    let arguments = Arguments::parse();
    if arguments.removable {
        let Some(refusal) = removable::refusal(&arguments.folder(), Path::new(UNDER_WAY)) else {
            return ExitCode::SUCCESS;
        };
        eprintln!("{refusal}");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(run(arguments));
            // A call that a device does not answer must not keep the service from ending.
            runtime.shutdown_timeout(LAST_CALLS);
            // One of these calls may have been between the end and the beginning of a mapping's requests.
            kinds::end_pauses();
            ended
        }
        Err(e) => Err(e.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(&arguments.folder())?;
    kernel_caches::forget();
    // A request that waits for a mapping would keep the calls below from ending.
    kinds::end_pauses();
    let connection = tandem_helper::service::connection::system().await?;
    let host = Arc::new(DeviceMapper::new(connection.clone()).await?);
    let service = Service::start(host, store, connection).await?;
    let ended = tokio::select! {
        result = tandem_helper::terminated() => result,
        () = service.until_idle() => {
            tracing::info!("nothing to do any more");
            Ok(())
        }
    };
    service.finish().await;
    Ok(ended?)
}
