// SPDX-License-Identifier: GPL-3.0-or-later
//! The service on a simulated machine, with a UDisks2 and a polkit of its own: for tests, pictures and
//! demonstrations. It needs no privilege and touches no real device.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tandem_helper::machine::store::Store;
use tandem_helper::service::Service;
use tandem_simulated::{Simulated, World};

/// Serves a simulated machine on the bus at DBUS_SYSTEM_BUS_ADDRESS.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Folder of the records; by default a folder of its own for this run
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
    let own = || {
        let folder = std::env::temp_dir().join(format!("tandem-simulated-{}", std::process::id()));
        // An earlier process with this number may have left its records there.
        let _ = std::fs::remove_dir_all(&folder);
        folder
    };
    let store = Store::open(&arguments.state.unwrap_or_else(own))?;
    let connection = tandem_helper::service::connection::system().await?;
    let world = Arc::new(World::default());
    // The service takes its bus name last: a client that sees the name finds the devices and the authority, too.
    let _connections = tandem_simulated::serve(&world, &connection).await?;
    let host = Arc::new(Simulated::new(world));
    let service = Service::start(host, store, connection).await?;
    let ended = tandem_helper::terminated().await;
    service.finish().await;
    Ok(ended?)
}
