// SPDX-License-Identifier: GPL-3.0-or-later
//! The app's window on a simulated machine.

use adw::prelude::*;
use tandem_api::SimulationProxy;
use tandem_app::application;
use tandem_app::widgets::window::Window;

use super::hand;
use tandem_stage::bus::start_as;
use tandem_stage::machine::Machine;

/// The window, shown, with the machine that it shows.
pub struct Opened {
    /// The application of this process.
    pub application: adw::Application,
    /// The window of the application.
    pub window: Window,
    /// A connection to the machine's bus.
    pub bus: zbus::Connection,
    /// The levers that make the simulated machine do what real machines do by themselves.
    pub levers: SimulationProxy<'static>,
    /// The machine's service and bus.
    pub machine: Machine,
}

/// Starts a machine whose jobs take `step_ms` a step, and opens the window on it. Only one test of a process can call
/// this, and only once: a process has one application and one environment.
///
/// # Panics
/// If the disks of the machine do not appear in the window.
pub async fn open(step_ms: u32) -> Opened {
    open_machine(Machine::start(), step_ms).await
}

/// The same on a bus with this configuration, a path in the project.
///
/// # Panics
/// As [`open`].
pub async fn open_on(bus: &str, step_ms: u32) -> Opened {
    open_machine(Machine::on(start_as(bus)), step_ms).await
}

async fn open_machine(machine: Machine, step_ms: u32) -> Opened {
    // SAFETY: no thread has been started in this process that reads the environment.
    unsafe {
        std::env::set_var("DBUS_SYSTEM_BUS_ADDRESS", &machine.address);
        // What the app remembers is of this machine alone.
        let own = std::env::temp_dir().join(format!("tandem-app-{}", std::process::id()));
        std::env::set_var("XDG_DATA_HOME", own);
        // GTK then keeps the accessible names even if no screen reader listens.
        std::env::set_var("GTK_A11Y", "test");
    }
    application::register_resources().expect("resources are sound");
    let application = application::application();
    application.set_flags(gtk::gio::ApplicationFlags::NON_UNIQUE);
    application
        .register(gtk::gio::Cancellable::NONE)
        .expect("nobody else has its name");
    let bus = zbus::Connection::system()
        .await
        .expect("the machine's bus answers");
    let levers = SimulationProxy::new(&bus)
        .await
        .expect("the machine is simulated");
    levers.set_step_time(step_ms).await.expect("a lever");
    let window = Window::new(&application);
    window.present();
    hand::wait(&window, "disks", || {
        hand::button(&window, "Set Up a Cache…")
    })
    .await;
    Opened {
        application,
        window,
        bus,
        levers,
        machine,
    }
}
