// SPDX-License-Identifier: GPL-3.0-or-later
//! The window of a speed test: begins the test, shows its progress and its result, and saves or copies the picture.
//!
//! The test belongs to this window: closing the window cancels the test.

mod share;

use std::cell::{Cell, OnceCell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone};
use tandem_api::{Failure, Kind, SpeedTest};

use crate::a11y;
use crate::client::{Client, SpeedTarget};
use crate::display::{failure_words, fill, speed_words};
use crate::widgets::choice_window::width_over;
use crate::widgets::error_view::ErrorView;
use crate::widgets::speed_picture::SpeedPicture;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "speed_dialog.ui")]
    pub struct SpeedDialog {
        #[template_child]
        pub toasts: TemplateChild<adw::ToastOverlay>,
        #[template_child]
        pub heading: TemplateChild<adw::WindowTitle>,
        #[template_child]
        pub pages: TemplateChild<gtk::Stack>,
        #[template_child]
        pub question: TemplateChild<gtk::Label>,
        #[template_child]
        pub what: TemplateChild<gtk::Label>,
        #[template_child]
        pub start: TemplateChild<gtk::Button>,
        #[template_child]
        pub phase: TemplateChild<gtk::Label>,
        #[template_child]
        pub bar: TemplateChild<gtk::ProgressBar>,
        #[template_child]
        pub cancel: TemplateChild<gtk::Button>,
        #[template_child]
        pub picture: TemplateChild<SpeedPicture>,
        #[template_child]
        pub save: TemplateChild<gtk::Button>,
        #[template_child]
        pub copy: TemplateChild<gtk::Button>,
        #[template_child]
        pub again: TemplateChild<gtk::Button>,
        #[template_child]
        pub error: TemplateChild<ErrorView>,
        #[template_child]
        pub retry: TemplateChild<gtk::Button>,
        pub client: OnceCell<Client>,
        pub target: OnceCell<SpeedTarget>,
        /// The result that is shown.
        pub result: RefCell<Option<SpeedTest>>,
        pub running: Cell<bool>,
        /// The person has cancelled the test that runs.
        pub cancelled: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for SpeedDialog {
        const NAME: &'static str = "TandemSpeedDialog";
        type Type = super::SpeedDialog;
        type ParentType = adw::Window;

        fn class_init(class: &mut Self::Class) {
            ErrorView::ensure_type();
            SpeedPicture::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for SpeedDialog {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().connect_buttons();
            a11y::name_by_labels(&*self.obj());
        }
    }

    impl WidgetImpl for SpeedDialog {}

    impl WindowImpl for SpeedDialog {
        fn close_request(&self) -> glib::Propagation {
            if self.running.get() {
                self.obj().cancel();
            }
            self.parent_close_request()
        }
    }

    impl AdwWindowImpl for SpeedDialog {}
}

glib::wrapper! {
    /// Tests the speed of a cache, or of a disk without a cache.
    pub struct SpeedDialog(ObjectSubclass<imp::SpeedDialog>)
        @extends adw::Window, gtk::Window, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl SpeedDialog {
    /// Opens the window. `disk`: the name of the disk. `last`: the last result, if there is one.
    pub fn open(
        parent: Option<&gtk::Window>,
        client: &Client,
        target: SpeedTarget,
        disk: &str,
        last: Option<&SpeedTest>,
    ) -> Self {
        let dialog: Self = glib::Object::new();
        let imp = dialog.imp();
        dialog.set_default_width(width_over(parent, 520));
        dialog.set_transient_for(parent);
        imp.heading.set_subtitle(disk);
        let (question, what) = match &target {
            SpeedTarget::Cache(_) => (
                gettext("How Much Faster Is It?"),
                gettext(
                    "Tandem reads the same places from the hard disk alone and with the SSD, and compares the times. What it reads takes a place on the SSD and counts in the figures, like all that you read.",
                ),
            ),
            SpeedTarget::Disk(_) => (
                gettext("How Fast Is This Disk?"),
                gettext(
                    "Tandem reads from {disk} and measures the times. With an SSD you can test again and compare.",
                ),
            ),
        };
        imp.question.set_label(&question);
        imp.what.set_label(&fill(&what, &[("disk", disk)]));
        // Both are set only here.
        let _ = imp.client.set(client.clone());
        let _ = imp.target.set(target);
        match last {
            Some(last) => dialog.show_result(last),
            None => dialog.show_page("intro", &imp.start),
        }
        dialog.present();
        dialog
    }

    fn connect_buttons(&self) {
        let imp = self.imp();
        for button in [&imp.start, &imp.again, &imp.retry] {
            button.connect_clicked(clone!(
                #[weak(rename_to = dialog)]
                self,
                move |_| dialog.begin()
            ));
        }
        imp.cancel.connect_clicked(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |_| dialog.cancel()
        ));
        imp.save.connect_clicked(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |_| dialog.save()
        ));
        imp.copy.connect_clicked(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |_| dialog.copy()
        ));
    }

    /// Shows a page, with the focus on this button.
    fn show_page(&self, name: &str, button: &gtk::Button) {
        self.imp().pages.set_visible_child_name(name);
        button.grab_focus();
    }

    fn show_result(&self, result: &SpeedTest) {
        let imp = self.imp();
        imp.picture.show(speed_words(result));
        imp.result.replace(Some(result.clone()));
        self.show_page("result", &imp.save);
    }

    fn begin(&self) {
        let imp = self.imp();
        let (Some(client), Some(target)) = (imp.client.get().cloned(), imp.target.get().cloned())
        else {
            return;
        };
        if imp.running.replace(true) {
            return;
        }
        // Until the service has begun, perhaps after an authentication.
        imp.phase.set_label(&gettext("Starting the test…"));
        imp.bar.set_fraction(0.0);
        imp.cancelled.set(false);
        imp.cancel.set_sensitive(true);
        self.show_page("running", &imp.cancel);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = dialog)]
            self,
            async move {
                let tell = |done, through_cache| {
                    dialog.show_progress(done, through_cache);
                    // The service did not know the test yet when it was to be cancelled.
                    if dialog.imp().cancelled.get() {
                        dialog.cancel();
                    }
                };
                let result = client.test_speed(&target, tell).await;
                dialog.imp().running.set(false);
                dialog.show_end(result);
            }
        ));
    }

    fn show_progress(&self, done: f64, through_cache: bool) {
        let imp = self.imp();
        let words = if through_cache {
            gettext("Reading with the SSD…")
        } else {
            gettext("Reading from the hard disk…")
        };
        if imp.phase.label() != words {
            imp.phase.set_label(&words);
        }
        imp.bar.set_fraction(done.clamp(0.0, 1.0));
    }

    fn show_end(&self, result: Result<SpeedTest, Failure>) {
        let imp = self.imp();
        match result {
            Ok(result) => self.show_result(&result),
            Err(failure) if failure.kind == Kind::Cancelled => {
                let last = imp.result.borrow().is_some();
                if last {
                    self.show_page("result", &imp.again);
                } else {
                    self.show_page("intro", &imp.start);
                }
            }
            Err(failure) => {
                imp.error.show(&failure);
                self.show_page("failed", &imp.retry);
            }
        }
    }

    /// Asks the service to end the test. The end of the call of the test shows what happens then.
    fn cancel(&self) {
        let imp = self.imp();
        let Some(client) = imp.client.get().cloned() else {
            return;
        };
        imp.cancelled.set(true);
        imp.cancel.set_sensitive(false);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = dialog)]
            self,
            async move {
                if let Err(failure) = client.cancel_speed_test().await {
                    dialog.imp().cancelled.set(false);
                    dialog.imp().cancel.set_sensitive(true);
                    dialog.toast(&failure_words(&failure).what);
                }
            }
        ));
    }

    fn toast(&self, words: &str) {
        let toast = adw::Toast::new(&glib::markup_escape_text(words));
        self.imp().toasts.add_toast(toast);
    }
}
