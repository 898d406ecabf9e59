// SPDX-License-Identifier: GPL-3.0-or-later
//! Saves and copies the picture of a result.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{gdk, gio, prelude::*};
use tandem_api::{Failure, Kind};

use super::SpeedDialog;
use crate::display::{file_name, fill};
use crate::widgets::remove_dialog::{not_saved, show_failure};

impl SpeedDialog {
    /// The picture. Shows why there is none.
    fn drawn(&self) -> Option<gdk::Texture> {
        let drawn = self.imp().picture.texture();
        let internal = |error: &_| {
            let failure = Failure::new(Kind::Internal).detail(error);
            show_failure(Some(self.upcast_ref()), &failure);
        };
        drawn.inspect_err(internal).ok()
    }

    /// Copies the picture to the clipboard.
    pub(super) fn copy(&self) {
        if let Some(picture) = self.drawn() {
            self.clipboard().set_texture(&picture);
            self.toast(&gettext("Picture copied"));
        }
    }

    /// Asks for a file, and writes the picture to it.
    pub(super) fn save(&self) {
        let Some(picture) = self.drawn() else { return };
        let chooser = gtk::FileChooserNative::builder()
            .title(gettext("Save Picture"))
            .action(gtk::FileChooserAction::Save)
            .modal(true)
            .build();
        chooser.set_transient_for(Some(self));
        let disk = self.imp().heading.subtitle();
        let name = fill(
            // Translators: the name of a file; {disk} is the name of a disk
            &gettext("Speed of {disk}.png"),
            &[("disk", &file_name(&disk))],
        );
        chooser.set_current_name(&name);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = dialog)]
            self,
            async move {
                let answer = chooser.run_future().await;
                if let (gtk::ResponseType::Accept, Some(file)) = (answer, chooser.file()) {
                    dialog.write(&picture, &file).await;
                }
            }
        ));
    }

    /// Writes the picture to this file as PNG.
    async fn write(&self, picture: &gdk::Texture, file: &gio::File) {
        let bytes = picture.save_to_png_bytes();
        let written = file.replace_contents_future(bytes, None, false, gio::FileCreateFlags::NONE);
        match written.await {
            Ok(_) => self.toast(&gettext("Picture saved")),
            Err((_, error)) => {
                show_failure(Some(self.upcast_ref()), &not_saved(file, &error));
            }
        }
    }
}
