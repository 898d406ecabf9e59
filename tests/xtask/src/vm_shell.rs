// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask vm`: a root shell in the virtual machine, one line at a time.

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::{Result, bail};

use tandem_guest::disks;
use tandem_guest::vm::{Parts, Screen, Vm};
use tandem_harness::cx::{Cx, say};
use tandem_harness::deps;
use tandem_harness::machine::Machine;

/// Longest run of one line.
const LIMIT: Duration = Duration::from_secs(600);

/// Arguments of `cargo xtask vm`.
#[derive(clap::Args)]
pub struct Args {
    /// Show the guest's screen in a window.
    #[arg(long)]
    window: bool,
    /// Plug the disk and the SSD of the demo in.
    #[arg(long)]
    disks: bool,
    /// Build the project and install it in the guest.
    #[arg(long)]
    install: bool,
    /// The system of the virtual machine.
    #[arg(long, value_enum, value_name = "SYSTEM", default_value_t)]
    machine: Machine,
    /// Take a picture of the guest's screen at the end.
    #[arg(long, value_name = "PNG")]
    screenshot: Option<std::path::PathBuf>,
    /// A script to run instead of reading lines.
    script: Option<String>,
}

/// `cargo xtask vm`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    deps::ensure(deps::GUEST)?;
    let cx = &Cx {
        machine: args.machine,
        ..cx.clone()
    };
    let parts = Parts::get(cx)?;
    let screen = if args.window {
        Screen::Window
    } else {
        Screen::Hidden
    };
    let mut vm = if args.install {
        Vm::installed(cx, &parts, screen)?
    } else {
        Vm::bare(cx, &parts, screen)?
    };
    let scratch = disks::Scratch::new()?;
    if args.disks {
        let pair = disks::pair(&scratch)?;
        vm.plug(&pair.origin)?;
        vm.plug(&pair.ssd)?;
    }
    let mut last = 0;
    if let Some(script) = &args.script {
        last = vm.agent.run(script, LIMIT, |line| println!("{line}"))?.code;
    } else {
        say("one line at a time, as root; each starts in / and in a new shell; end with Ctrl-D");
        let stdin = std::io::stdin();
        loop {
            print!("guest# ");
            std::io::stdout().flush()?;
            let mut line = String::new();
            if stdin.lock().read_line(&mut line)? == 0 {
                break;
            }
            let ended = vm.agent.run(&line, LIMIT, |line| println!("{line}"))?;
            if ended.code != 0 {
                println!("(exit code {})", ended.code);
            }
        }
    }
    if let Some(png) = &args.screenshot {
        vm.screenshot(&std::path::absolute(png)?)?;
    }
    if last != 0 {
        bail!("the script ended with {last}");
    }
    Ok(())
}
