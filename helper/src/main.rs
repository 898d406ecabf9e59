// SPDX-License-Identifier: GPL-3.0-or-later
//! The privileged D-Bus service that builds, watches and removes caches.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tandem_helper::engine::Engine;
use tandem_helper::engine::device_mapper::DeviceMapper;
use tandem_helper::engine::simulated::{self, Simulated, World};
use tandem_helper::service::Service;
use tandem_helper::state::{FOLDER, Store};

/// Builds, watches and removes SSD caches; started by D-Bus.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Serve a simulated machine on the bus at DBUS_SYSTEM_BUS_ADDRESS: no privilege, no real device
    #[arg(long)]
    simulated: bool,
    /// Folder of the records; by default STATE_DIRECTORY or /var/lib/tandem, with --simulated a
    /// folder of its own for this run
    #[arg(long)]
    state: Option<PathBuf>,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    tandem_helper::log();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let folder = match (arguments.state, arguments.simulated) {
        (Some(folder), _) => folder,
        (None, true) => {
            std::env::temp_dir().join(format!("tandem-simulated-{}", std::process::id()))
        }
        (None, false) => {
            std::env::var_os("STATE_DIRECTORY").map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
        }
    };
    let store = Store::open(&folder)?;
    let connection = zbus::connection::Builder::system().build().await?;
    if arguments.simulated {
        let world = Arc::new(World::default());
        let engine: Arc<dyn Engine> = Arc::new(Simulated::new(world.clone()));
        // The service's name comes last: who sees it finds the devices and the authority as well.
        let _kept = simulated::serve(&world, &connection).await?;
        let _service = Service::start(engine, store, connection).await?;
        return Ok(terminated().await?);
    }
    let engine = Arc::new(DeviceMapper::new(connection.clone()).await?);
    let service = Service::start(engine, store, connection).await?;
    tokio::select! {
        result = terminated() => result?,
        () = service.until_idle() => tracing::info!("nothing to do any more"),
    }
    Ok(())
}

/// Returns on SIGTERM and SIGINT.
async fn terminated() -> std::io::Result<()> {
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
