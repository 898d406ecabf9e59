// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of the shortcuts and of the about window.

use adw::prelude::*;
use tandem_app::widgets::window::Window;

use crate::stage::hand;
use crate::{Camera, Result};

/// Starts and ends at the overview.
pub async fn tour(application: &adw::Application, window: &Window, camera: &Camera) -> Result {
    WidgetExt::activate_action(window, "win.show-help-overlay", None)?;
    let shortcuts: gtk::ShortcutsWindow = hand::window(application).await;
    camera.take(&shortcuts, "108-shortcuts").await?;
    shortcuts.close();

    application.activate_action("about", None);
    let about: adw::AboutWindow = hand::window(application).await;
    camera.take(&about, "109-about").await?;
    about.close();
    Ok(())
}
