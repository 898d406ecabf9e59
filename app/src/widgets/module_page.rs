// SPDX-License-Identifier: GPL-3.0-or-later
//! Says why the kernel cannot run a cache, and what to do, before the wizard asks anything. Has the key of the kernel
//! module enrolled where only that is missing.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};
use tandem_api::{Failure, Kind, Target};

use crate::client::Client;
use crate::display::{ModuleAction, ModuleWords, blue_screen, failure_words, fill, module_words};
use crate::model::store::Store;
use crate::widgets::enroll_form::EnrollForm;
use crate::widgets::task_list::show_tasks;
use crate::{a11y, enrollment};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "module_page.ui")]
    pub struct ModulePage {
        #[template_child]
        pub back: TemplateChild<gtk::Button>,
        #[template_child]
        pub scroller: TemplateChild<gtk::ScrolledWindow>,
        #[template_child]
        pub pages: TemplateChild<gtk::Stack>,
        #[template_child]
        pub icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub heading: TemplateChild<gtk::Label>,
        #[template_child]
        pub what: TemplateChild<gtk::Label>,
        #[template_child]
        pub reason: TemplateChild<gtk::Label>,
        #[template_child]
        pub safe: TemplateChild<gtk::Box>,
        #[template_child]
        pub next: TemplateChild<gtk::Label>,
        #[template_child]
        pub steps: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub commands_expander: TemplateChild<gtk::Expander>,
        #[template_child]
        pub commands: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub details_expander: TemplateChild<gtk::Expander>,
        #[template_child]
        pub details: TemplateChild<gtk::Label>,
        #[template_child]
        pub copy: TemplateChild<gtk::Button>,
        /// The other way: the kernel's own cache.
        #[template_child]
        pub instead: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub use_instead: TemplateChild<gtk::Button>,
        #[template_child]
        pub form: TemplateChild<EnrollForm>,
        #[template_child]
        pub failed: TemplateChild<gtk::Label>,
        #[template_child]
        pub primary: TemplateChild<gtk::Button>,
        pub client: OnceCell<Client>,
        pub store: OnceCell<Store>,
        pub store_changes: RefCell<Option<glib::SignalGroup>>,
        /// What is shown; `None` once the kernel can run a cache.
        pub words: RefCell<Option<ModuleWords>>,
        pub busy: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ModulePage {
        const NAME: &'static str = "TandemModulePage";
        type Type = super::ModulePage;
        type ParentType = adw::Window;

        fn class_init(class: &mut Self::Class) {
            EnrollForm::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ModulePage {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| {
                vec![
                    Signal::builder("set-up")
                        .param_types([bool::static_type()])
                        .build(),
                ]
            })
        }

        fn constructed(&self) {
            self.parent_constructed();
            self.obj().connect_parts();
            a11y::name_by_labels(&*self.obj());
        }
    }

    impl WidgetImpl for ModulePage {}

    impl WindowImpl for ModulePage {
        fn close_request(&self) -> glib::Propagation {
            // The closed window may stay alive for a while.
            self.store_changes.take();
            self.form.clear();
            self.parent_close_request()
        }
    }

    impl AdwWindowImpl for ModulePage {}
}

glib::wrapper! {
    /// The page of the kernel module. Emits `set-up` when the person goes on: when the kernel can run a cache, or with the
    /// kernel's own cache.
    pub struct ModulePage(ObjectSubclass<imp::ModulePage>)
        @extends adw::Window, gtk::Window, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl ModulePage {
    /// Makes a page that follows the store.
    #[must_use]
    pub fn new(client: Client, store: Store) -> Self {
        let page: Self = glib::Object::new();
        let imp = page.imp();
        let changed = clone!(
            #[weak]
            page,
            move |_: &Store| page.facts_changed()
        );
        imp.store_changes
            .replace(Some(store.follow_changes(changed)));
        // The client and the store are set only here.
        let _ = imp.client.set(client);
        let _ = imp.store.set(store);
        imp.words.replace(page.current());
        page.show_problem();
        page
    }

    /// Calls `then` with what is to serve the cache, when the person goes on.
    pub fn connect_set_up(&self, then: impl Fn(Target) + 'static) {
        self.connect_closure(
            "set-up",
            false,
            glib::closure_local!(move |_: &Self, of_kernel: bool| then(match of_kernel {
                true => Target::DmCache,
                false => Target::Tandem,
            })),
        );
    }

    /// Ends the page, and goes on to the wizard.
    fn go_on(&self, target: Target) {
        self.close();
        self.emit_by_name::<()>("set-up", &[&(target == Target::DmCache)]);
    }

    fn connect_parts(&self) {
        let imp = self.imp();
        imp.form.connect_typed(clone!(
            #[weak(rename_to = page)]
            self,
            move || page.refresh()
        ));
        imp.back.connect_clicked(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.show_problem()
        ));
        imp.primary.connect_clicked(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.advance()
        ));
        imp.use_instead.connect_clicked(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.go_on(Target::DmCache)
        ));
        imp.copy.connect_clicked(clone!(
            #[weak(rename_to = page)]
            self,
            move |button| {
                let imp = page.imp();
                let words = [imp.heading.label(), imp.what.label(), imp.details.label()];
                button.clipboard().set_text(&words.join("\n"));
            }
        ));
    }

    /// The words for the facts of now.
    fn current(&self) -> Option<ModuleWords> {
        let module = self.imp().store.get()?.module()?;
        module_words(&module, enrollment::is_asked())
    }

    fn facts_changed(&self) {
        let words = self.current();
        if *self.imp().words.borrow() != words {
            self.imp().words.replace(words);
            self.show_problem();
        }
    }

    fn is_enrolling(&self) -> bool {
        self.imp().pages.visible_child_name().as_deref() == Some("enroll")
    }

    /// Shows what is wrong, or that nothing is wrong any more.
    fn show_problem(&self) {
        let imp = self.imp();
        imp.form.clear();
        imp.failed.set_visible(false);
        let words = imp.words.borrow().clone();
        let is_ready = words.is_none();
        let words = words.unwrap_or_else(|| ModuleWords {
            title: gettext("Ready"),
            what: gettext("The kernel accepts Tandem's module. You can set up a cache now."),
            reason: String::new(),
            next: String::new(),
            action: ModuleAction::None,
            commands: vec![],
            details: String::new(),
            instead: String::new(),
        });
        if is_ready {
            enrollment::forget();
        }
        let (icon, class) = if is_ready {
            ("tandem-done-symbolic", "success")
        } else if words.action == ModuleAction::Restart {
            ("system-reboot-symbolic", "dim-label")
        } else {
            ("dialog-warning-symbolic", "warning")
        };
        imp.icon.set_icon_name(Some(icon));
        imp.icon.set_css_classes(&[class]);
        imp.heading.set_label(&words.title);
        imp.what.set_label(&words.what);
        imp.reason.set_label(&words.reason);
        imp.reason.set_visible(!words.reason.is_empty());
        imp.safe.set_visible(!is_ready);
        imp.next.set_label(&words.next);
        imp.next.set_visible(!words.next.is_empty());
        let steps = match words.action {
            ModuleAction::Restart => blue_screen(),
            ModuleAction::None | ModuleAction::Enroll => vec![],
        };
        show_tasks(&imp.steps, &steps);
        show_tasks(&imp.commands, &words.commands);
        imp.commands_expander.set_expanded(false);
        imp.commands_expander
            .set_visible(!words.commands.is_empty());
        imp.details.set_label(&words.details);
        imp.details_expander.set_expanded(false);
        imp.details_expander.set_visible(!is_ready);
        imp.instead.set_description(Some(&words.instead));
        imp.instead.set_visible(!words.instead.is_empty());
        imp.pages
            .set_transition_type(gtk::StackTransitionType::SlideRight);
        imp.pages.set_visible_child_name("problem");
        self.come_to();
        if imp.primary.is_visible() {
            imp.primary.grab_focus();
        } else {
            imp.scroller.grab_focus();
        }
    }

    fn show_form(&self) {
        let imp = self.imp();
        imp.pages
            .set_transition_type(gtk::StackTransitionType::SlideLeft);
        imp.pages.set_visible_child_name("enroll");
        self.come_to();
        imp.form.begin();
    }

    /// Begins a page at its top.
    fn come_to(&self) {
        self.imp().scroller.vadjustment().set_value(0.0);
        self.refresh();
    }

    /// Sets the buttons.
    fn refresh(&self) {
        let imp = self.imp();
        let action = imp.words.borrow().as_ref().map(|words| words.action);
        let label = match action {
            None => Some(gettext("_Set Up a Cache")),
            Some(ModuleAction::Enroll) if self.is_enrolling() => Some(gettext("_Enroll Key")),
            Some(ModuleAction::Enroll) => Some(gettext("_Enroll Key…")),
            Some(ModuleAction::Restart) => Some(gettext("_Restart…")),
            Some(ModuleAction::None) => None,
        };
        imp.primary.set_visible(label.is_some());
        imp.primary.set_label(&label.unwrap_or_default());
        let can = !self.is_enrolling() || imp.form.password().is_some();
        imp.primary.set_sensitive(can && !imp.busy.get());
        imp.back.set_visible(self.is_enrolling());
        imp.back.set_sensitive(!imp.busy.get());
        self.set_default_widget(Some(&*imp.primary));
    }

    fn set_busy(&self, busy: bool) {
        self.imp().busy.set(busy);
        self.refresh();
    }

    /// Goes on: the button was pressed.
    fn advance(&self) {
        if self.imp().busy.get() {
            return;
        }
        let action = self.imp().words.borrow().as_ref().map(|words| words.action);
        match action {
            None => self.go_on(Target::Tandem),
            Some(ModuleAction::Enroll) if self.is_enrolling() => self.enroll(),
            Some(ModuleAction::Enroll) => self.show_form(),
            Some(ModuleAction::Restart) => self.ask_to_restart(),
            Some(ModuleAction::None) => {}
        }
    }

    /// The page goes on when the service tells that the firmware will ask.
    fn enroll(&self) {
        let imp = self.imp();
        let (Some(client), Some(password)) = (imp.client.get().cloned(), imp.form.password())
        else {
            return;
        };
        imp.failed.set_visible(false);
        self.set_busy(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                match client.enroll_key(&password).await {
                    Ok(()) => enrollment::remember(),
                    Err(failure) => page.tell(&enroll_failure(&failure)),
                }
                page.set_busy(false);
            }
        ));
    }

    fn ask_to_restart(&self) {
        let dialog = adw::MessageDialog::builder()
            .heading(gettext("Restart Now?"))
            .body(gettext(
                "Save your work in all programs first. The blue screen appears before the system starts.",
            ))
            .transient_for(self)
            .modal(true)
            .default_response("restart")
            .close_response("cancel")
            .build();
        dialog.add_responses(&[
            ("cancel", &gettext("_Cancel")),
            ("restart", &gettext("_Restart")),
        ]);
        dialog.set_response_appearance("restart", adw::ResponseAppearance::Suggested);
        dialog.connect_response(
            Some("restart"),
            clone!(
                #[weak(rename_to = page)]
                self,
                move |_, _| page.restart()
            ),
        );
        a11y::name_by_labels(&dialog);
        dialog.present();
    }

    fn restart(&self) {
        let Some(client) = self.imp().client.get().cloned() else {
            return;
        };
        self.imp().failed.set_visible(false);
        self.set_busy(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                if let Err(failure) = client.restart_computer().await {
                    tracing::warn!("no restart: {failure}");
                    page.tell(&gettext(
                        "Tandem could not restart the computer. Restart it as you usually do.",
                    ));
                }
                page.set_busy(false);
            }
        ));
    }

    fn tell(&self, words: &str) {
        self.imp().failed.set_label(words);
        self.imp().failed.set_visible(true);
    }
}

/// Why the key is not enrolled, and what to do.
fn enroll_failure(failure: &Failure) -> String {
    if failure.kind == Kind::StepFailed {
        return fill(
            &gettext("This computer did not take the key: {reason}"),
            &[("reason", &failure.detail)],
        );
    }
    let words = failure_words(failure);
    format!("{} {}", words.what, words.next)
}
