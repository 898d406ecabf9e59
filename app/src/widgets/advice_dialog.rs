// SPDX-License-Identifier: GPL-3.0-or-later
//! The window of the advisor: has the service watch a disk, and shows whether an SSD would help it.
//!
//! The window shows what the service tells of the watch. The watch goes on when the window is closed.

use std::cell::{Cell, OnceCell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone};
use tandem_api::{DiskWatch, Failure, Kind, Verdict, WatchState};

use crate::a11y;
use crate::client::Client;
use crate::display::{
    Figure, SsdMark, advice_words, bytes, duration, fill, percent, seen_figures, ssd_marks,
};
use crate::model::objects::DeviceObject;
use crate::model::store::{Store, objects};
use crate::widgets::choice_window::width_over;
use crate::widgets::curve::Curve;
use crate::widgets::figure_list::{FigureRow, show_figures};
use crate::widgets::remove_dialog::show_failure;

/// Sets up a cache for the disk with this block path.
type SetUp = Box<dyn Fn(&str)>;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "advice_dialog.ui")]
    pub struct AdviceDialog {
        #[template_child]
        pub toasts: TemplateChild<adw::ToastOverlay>,
        #[template_child]
        pub heading: TemplateChild<adw::WindowTitle>,
        #[template_child]
        pub pages: TemplateChild<gtk::Stack>,
        #[template_child]
        pub what: TemplateChild<gtk::Label>,
        #[template_child]
        pub start: TemplateChild<gtk::Button>,
        #[template_child]
        pub answer: TemplateChild<gtk::Label>,
        #[template_child]
        pub reason: TemplateChild<gtk::Label>,
        #[template_child]
        pub notice: TemplateChild<gtk::Label>,
        #[template_child]
        pub chart_card: TemplateChild<gtk::Box>,
        #[template_child]
        pub curve: TemplateChild<Curve>,
        #[template_child]
        pub selection: TemplateChild<gtk::Label>,
        #[template_child]
        pub ssd_part: TemplateChild<gtk::Box>,
        #[template_child]
        pub ssds: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub seen: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub set_up: TemplateChild<gtk::Button>,
        #[template_child]
        pub stop: TemplateChild<gtk::Button>,
        pub ssd_rows: RefCell<Vec<FigureRow>>,
        pub seen_rows: RefCell<Vec<FigureRow>>,
        pub client: OnceCell<Client>,
        pub store: OnceCell<Store>,
        /// Block path of the disk, or the id of its watch.
        pub disk: OnceCell<String>,
        /// The id of the watch that is shown: the block path says nothing once the disk is disconnected.
        pub shown: RefCell<Option<String>>,
        pub store_changes: RefCell<Option<glib::SignalGroup>>,
        /// Sets up a cache for the disk with this block path; none over the wizard, which does that already.
        pub on_set_up: OnceCell<SetUp>,
        /// Whether a call to the service is under way.
        pub busy: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for AdviceDialog {
        const NAME: &'static str = "TandemAdviceDialog";
        type Type = super::AdviceDialog;
        type ParentType = adw::Window;

        fn class_init(class: &mut Self::Class) {
            Curve::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for AdviceDialog {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().connect_buttons();
            a11y::name_by_labels(&*self.obj());
        }
    }

    impl WidgetImpl for AdviceDialog {}

    impl WindowImpl for AdviceDialog {
        fn close_request(&self) -> glib::Propagation {
            // The closed window may stay alive for a while.
            self.store_changes.take();
            self.parent_close_request()
        }
    }

    impl AdwWindowImpl for AdviceDialog {}
}

glib::wrapper! {
    /// A widget that shows whether an SSD would help a disk.
    pub struct AdviceDialog(ObjectSubclass<imp::AdviceDialog>)
        @extends adw::Window, gtk::Window, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl AdviceDialog {
    /// Opens the window for a disk. `disk`: its block path, or the id of its watch. `name`: the name of the disk.
    pub fn open(
        parent: Option<&gtk::Window>,
        client: &Client,
        store: &Store,
        disk: &str,
        name: &str,
    ) -> Self {
        let dialog: Self = glib::Object::new();
        let imp = dialog.imp();
        dialog.set_default_width(width_over(parent, 560));
        dialog.set_transient_for(parent);
        imp.heading.set_subtitle(name);
        let what = gettext(
            "Tandem can watch how {disk} is used, and predict what share of the reads an SSD of each size would serve.",
        );
        imp.what.set_label(&fill(&what, &[("disk", name)]));
        // All three are set only here.
        let _ = imp.client.set(client.clone());
        let _ = imp.store.set(store.clone());
        let _ = imp.disk.set(disk.to_owned());
        let changes = store.follow_changes(clone!(
            #[weak]
            dialog,
            move |_| dialog.refresh()
        ));
        imp.store_changes.replace(Some(changes));
        dialog.refresh();
        dialog.present();
        dialog
    }

    fn connect_buttons(&self) {
        let imp = self.imp();
        imp.start.connect_clicked(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |_| dialog.begin()
        ));
        imp.stop.connect_clicked(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |_| dialog.ask_to_stop()
        ));
        imp.set_up.connect_clicked(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |_| dialog.set_up()
        ));
        imp.curve.connect_selected(clone!(
            #[weak(rename_to = dialog)]
            self,
            move |curve| {
                let what = gettext(
                    "Predicted from what was seen so far. The band shows the possible error.",
                );
                let words = curve.selected_words().unwrap_or(what);
                dialog.imp().selection.set_label(&words);
            }
        ));
    }

    fn watch(&self) -> Option<DiskWatch> {
        let imp = self.imp();
        let (store, shown) = (imp.store.get()?, imp.shown.borrow());
        let again = shown.as_ref().and_then(|id| store.watch(id));
        again.or_else(|| store.watch(imp.disk.get()?))
    }

    fn refresh(&self) {
        let imp = self.imp();
        let Some(watch) = self.watch() else {
            let connected = imp.disk.get().is_some_and(|disk| disk.starts_with('/'));
            if connected {
                self.show_page("intro", &imp.start);
            } else {
                // The watch has ended, and a disk that is not connected cannot be watched anew.
                self.close();
            }
            return;
        };
        imp.shown.replace(Some(watch.id.clone()));
        let words = advice_words(&watch);
        imp.answer.set_label(&words.title);
        imp.reason.set_label(&words.text);
        imp.notice.set_label(&words.notice);
        imp.notice.set_visible(!words.notice.is_empty());
        let marks = self.marks();
        let known = watch.reads > 0 && !watch.points.is_empty();
        imp.chart_card.set_visible(known);
        imp.ssd_part.set_visible(known && !marks.is_empty());
        let figures: Vec<_> = marks
            .iter()
            .filter_map(|mark| {
                let point = watch.at(mark.bytes)?;
                Some(Figure {
                    title: mark.name.clone(),
                    meaning: bytes(mark.bytes),
                    value: percent(f64::from(point.reads_permille) / 1000.0),
                })
            })
            .collect();
        show_figures(&imp.ssds, &mut imp.ssd_rows.borrow_mut(), &figures);
        imp.curve.show(&watch, marks);
        let seen = seen_figures(&watch);
        show_figures(&imp.seen, &mut imp.seen_rows.borrow_mut(), &seen);
        let offered = imp.on_set_up.get().is_some() && watch.state != WatchState::Away;
        imp.set_up
            .set_visible(offered && watch.verdict == Verdict::Helps);
        self.show_page("advice", &imp.stop);
    }

    /// Shows a page; when it was not shown before, with the focus on this button.
    fn show_page(&self, name: &str, button: &gtk::Button) {
        let pages = &self.imp().pages;
        if pages.visible_child_name().is_none_or(|shown| shown != name)
            || RootExt::focus(self).is_none()
        {
            pages.set_visible_child_name(name);
            button.grab_focus();
        }
    }

    /// The SSDs that could become the cache.
    fn marks(&self) -> Vec<SsdMark> {
        let imp = self.imp();
        let (Some(store), Some(disk)) = (imp.store.get(), imp.disk.get()) else {
            return Vec::new();
        };
        let devices: Vec<_> = objects::<DeviceObject>(&store.devices())
            .map(|device| device.facts())
            .collect();
        ssd_marks(&devices, disk, store.minimum_ssd_bytes())
    }

    /// Offers to set up a cache for the disk; `set_up` gets the disk's block path when the person wants that.
    pub fn connect_set_up(&self, set_up: impl Fn(&str) + 'static) {
        if self.imp().on_set_up.set(Box::new(set_up)).is_ok() {
            self.refresh();
        }
    }

    fn set_up(&self) {
        let (Some(watch), Some(set_up)) = (self.watch(), self.imp().on_set_up.get()) else {
            return;
        };
        self.close();
        set_up(watch.disk.object.as_str());
    }

    fn begin(&self) {
        let imp = self.imp();
        let (Some(client), Some(disk)) = (imp.client.get().cloned(), imp.disk.get().cloned())
        else {
            return;
        };
        self.call(async move { client.watch_disk(&disk).await });
    }

    /// The person is asked, because the figures of a watch cannot be had again.
    fn ask_to_stop(&self) {
        let (Some(client), Some(watch)) = (self.imp().client.get().cloned(), self.watch()) else {
            return;
        };
        let body = gettext("What Tandem has seen of this disk in {time} is forgotten.");
        let time = duration(watch.watched_seconds);
        let question = adw::MessageDialog::builder()
            .heading(gettext("Stop Watching?"))
            .body(fill(&body, &[("time", &time)]))
            .build();
        question.set_transient_for(Some(self));
        question.add_responses(&[
            ("cancel", &gettext("_Keep Watching")),
            ("stop", &gettext("_Stop and Forget")),
        ]);
        question.set_response_appearance("stop", adw::ResponseAppearance::Destructive);
        question.set_default_response(Some("cancel"));
        question.set_close_response("cancel");
        question.connect_response(
            Some("stop"),
            clone!(
                #[weak(rename_to = dialog)]
                self,
                move |_, _| {
                    let (client, id) = (client.clone(), watch.id.clone());
                    dialog.call(async move { client.stop_watching(&id).await });
                }
            ),
        );
        a11y::name_by_labels(&question);
        question.present();
    }

    /// Makes a call, and shows why it failed. The service tells what has changed.
    fn call(&self, call: impl Future<Output = Result<(), Failure>> + 'static) {
        let imp = self.imp();
        if imp.busy.replace(true) {
            return;
        }
        for button in [&imp.start, &imp.stop] {
            button.set_sensitive(false);
        }
        glib::spawn_future_local(clone!(
            #[weak(rename_to = dialog)]
            self,
            async move {
                let result = call.await;
                let imp = dialog.imp();
                imp.busy.set(false);
                for button in [&imp.start, &imp.stop] {
                    button.set_sensitive(true);
                }
                match result {
                    Ok(()) => {}
                    // The person who dismissed the question needs no reason.
                    Err(failure)
                        if failure.kind == Kind::NotAuthorized && failure.detail == "dismissed" => {
                    }
                    Err(failure) => show_failure(Some(dialog.upcast_ref()), &failure),
                }
            }
        ));
    }
}
