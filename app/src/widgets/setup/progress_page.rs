// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows the progress of the job, or its failure.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use gtk::{CompositeTemplate, prelude::*};
use tandem_api::Failure;

use crate::display::{failure_words, fill};
use crate::model::objects::JobObject;
use crate::widgets::error_view::ErrorView;
use crate::widgets::job_view::JobView;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "progress_page.ui")]
    pub struct ProgressPage {
        #[template_child]
        pub stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub job: TemplateChild<JobView>,
        #[template_child]
        pub error: TemplateChild<ErrorView>,
        #[template_child]
        pub goes_on: TemplateChild<gtk::Box>,
        #[template_child]
        pub goes_on_text: TemplateChild<gtk::Label>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ProgressPage {
        const NAME: &'static str = "TandemProgressPage";
        type Type = super::ProgressPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            JobView::ensure_type();
            ErrorView::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ProgressPage {}
    impl WidgetImpl for ProgressPage {}
    impl BinImpl for ProgressPage {}
}

glib::wrapper! {
    /// The page of a running job.
    pub struct ProgressPage(ObjectSubclass<imp::ProgressPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl ProgressPage {
    /// Shows this job.
    pub fn show_job(&self, job: &JobObject) {
        self.imp().job.show(Some(job));
        self.show_cancel_failure(None);
        self.imp().stack.set_visible_child_name("working");
    }

    /// Says that the job goes on although it was cancelled, and why; with `None` no longer.
    pub fn show_cancel_failure(&self, failure: Option<&Failure>) {
        let imp = self.imp();
        imp.goes_on.set_visible(failure.is_some());
        if let Some(failure) = failure {
            let words = gettext(
                "The setup could not be canceled, and goes on. {reason} Try again, or wait for the end and then remove the cache: your files stay on the hard disk.",
            );
            let reason = failure_words(failure).what;
            imp.goes_on_text
                .set_label(&fill(&words, &[("reason", &reason)]));
        }
    }

    /// Shows why the job failed or could not be begun.
    pub fn show_failure(&self, failure: &Failure) {
        self.imp().error.show(failure);
        self.imp().stack.set_visible_child_name("failed");
    }
}
