// SPDX-License-Identifier: GPL-3.0-or-later
//! A running job: its name, its progress, its steps.

use std::cell::RefCell;

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, prelude::*};

use crate::display::{SEPARATOR, job_title, percent, progress_words};
use crate::model::facts::JobFacts;
use crate::model::objects::JobObject;
use crate::widgets::step_list::StepList;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "job_view.ui")]
    pub struct JobView {
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub estimate: TemplateChild<gtk::Label>,
        #[template_child]
        pub bar: TemplateChild<gtk::ProgressBar>,
        #[template_child]
        pub steps: TemplateChild<StepList>,
        pub changes: RefCell<Option<glib::SignalGroup>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for JobView {
        const NAME: &'static str = "TandemJobView";
        type Type = super::JobView;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            StepList::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for JobView {}
    impl WidgetImpl for JobView {}
    impl BinImpl for JobView {}
}

glib::wrapper! {
    /// A widget that shows a [`JobObject`].
    pub struct JobView(ObjectSubclass<imp::JobView>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl JobView {
    /// Shows this job from now on, or none.
    pub fn show(&self, job: Option<&JobObject>) {
        self.imp().changes.replace(job.map(|job| {
            self.refresh(&job.facts());
            job.follow_changes(clone!(
                #[weak(rename_to = view)]
                self,
                move |job| view.refresh(&job.facts())
            ))
        }));
    }

    fn refresh(&self, job: &JobFacts) {
        let imp = self.imp();
        imp.title.set_label(&job_title(job.kind, job.undoing));
        imp.bar.set_fraction(job.progress.clamp(0.0, 1.0));
        imp.estimate.set_label(&estimate(job));
        imp.steps.show(&job.steps);
        imp.steps.set_index(job.step_index);
    }
}

/// Progress, speed and time left.
fn estimate(job: &JobFacts) -> String {
    if job.paused {
        return [percent(job.progress), gettext("paused")].join(SEPARATOR);
    }
    progress_words(job.progress, job.rate, job.seconds_left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::JobKind;

    #[test]
    fn a_job_that_waits_has_no_end() {
        let mut job = JobFacts {
            kind: JobKind::Remove,
            progress: 0.5,
            cancellable: true,
            pausable: true,
            ..JobFacts::default()
        };
        job.seconds_left = 90;
        assert!(estimate(&job).ends_with("left"));
        job.paused = true;
        assert_eq!(estimate(&job).replace('\u{a0}', " "), "50% · paused");
    }
}
