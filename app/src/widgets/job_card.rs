// SPDX-License-Identifier: GPL-3.0-or-later
//! A job that changes a cache, with the buttons that pause and stop it.

use std::cell::{OnceCell, RefCell};

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, prelude::*};
use tandem_api::Failure;

use crate::client::Client;
use crate::model::objects::JobObject;
use crate::widgets::job_view::JobView;
use crate::widgets::remove_dialog::show_failure;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "job_card.ui")]
    pub struct JobCard {
        #[template_child]
        pub job: TemplateChild<JobView>,
        #[template_child]
        pub pause: TemplateChild<gtk::Button>,
        #[template_child]
        pub cancel: TemplateChild<gtk::Button>,
        pub client: OnceCell<Client>,
        pub shown: RefCell<Option<(JobObject, glib::SignalGroup)>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for JobCard {
        const NAME: &'static str = "TandemJobCard";
        type Type = super::JobCard;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            JobView::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for JobCard {
        fn constructed(&self) {
            self.parent_constructed();
            self.pause.connect_clicked(clone!(
                #[weak(rename_to = card)]
                self.obj(),
                move |_| card.pause()
            ));
            self.cancel.connect_clicked(clone!(
                #[weak(rename_to = card)]
                self.obj(),
                move |_| card.cancel()
            ));
        }
    }

    impl WidgetImpl for JobCard {}
    impl BinImpl for JobCard {}
}

glib::wrapper! {
    /// A widget that shows a [`JobObject`], hidden while there is none.
    pub struct JobCard(ObjectSubclass<imp::JobCard>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl JobCard {
    /// Sets the client for calls.
    pub fn connect_to(&self, client: &Client) {
        // The page calls this once.
        let _ = self.imp().client.set(client.clone());
    }

    /// Shows this job from now on, or none.
    pub fn show(&self, job: Option<&JobObject>) {
        let imp = self.imp();
        if imp.shown.borrow().as_ref().map(|(shown, _)| shown) == job {
            return;
        }
        imp.shown.replace(job.map(|job| {
            let changes = job.follow_changes(clone!(
                #[weak(rename_to = card)]
                self,
                move |_| card.refresh()
            ));
            (job.clone(), changes)
        }));
        imp.job.show(job);
        self.set_visible(job.is_some());
        self.refresh();
    }

    fn shown(&self) -> Option<JobObject> {
        self.imp()
            .shown
            .borrow()
            .as_ref()
            .map(|(job, _)| job.clone())
    }

    fn refresh(&self) {
        let imp = self.imp();
        let Some(facts) = self.shown().map(|job| job.facts()) else {
            return;
        };
        imp.cancel
            .set_sensitive(facts.cancellable && !facts.undoing);
        imp.pause.set_visible(facts.pausable || facts.paused);
        imp.pause.set_label(&if facts.paused {
            gettext("Resume")
        } else {
            gettext("Pause")
        });
    }

    fn pause(&self) {
        let Some(facts) = self.shown().map(|job| job.facts()) else {
            return;
        };
        self.call(move |client| async move { client.pause(&facts.path, !facts.paused).await });
    }

    fn cancel(&self) {
        let Some(facts) = self.shown().map(|job| job.facts()) else {
            return;
        };
        self.call(move |client| async move { client.cancel(&facts.path).await });
    }

    /// Calls the service and shows a failure of the call, unless the job has ended meanwhile: the end of the job is
    /// shown already.
    fn call<F: Future<Output = Result<(), Failure>> + 'static>(
        &self,
        ask: impl FnOnce(Client) -> F + 'static,
    ) {
        let (Some(client), Some(job)) = (self.imp().client.get().cloned(), self.shown()) else {
            return;
        };
        let parent = self.root().and_downcast::<gtk::Window>();
        glib::spawn_future_local(async move {
            if let Err(failure) = ask(client).await
                && job.facts().finished.is_none()
            {
                show_failure(parent.as_ref(), &failure);
            }
        });
    }
}
