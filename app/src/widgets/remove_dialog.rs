// SPDX-License-Identifier: GPL-3.0-or-later
//! Says what removing a cache does, asks, and begins it.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::{gio, glib};

use crate::a11y;
use crate::client::Client;
use crate::display::{
    NOT_SAVED, bytes, failure_words, fill, full_title, plan_title, removal_time, warning_words,
};
use crate::model::facts::CacheFacts;
use crate::widgets::step_list::StepList;
use tandem_api::{CacheState, Failure, JobKind, Kind, PlanReply, StepKind};

/// Shows the steps of a removal, and executes them if the person agrees.
///
/// The cache's job shows the progress of the removal; a failure before the job is shown here. If the SSD holds data
/// that cannot be written to the disk now, the person may discard that data. `seconds` is how long writing the dirty data
/// to the disk takes, 0 if that time is not known.
pub async fn ask_to_remove(
    parent: Option<&gtk::Window>,
    client: &Client,
    cache: &CacheFacts,
    seconds: u64,
) {
    match client.plan_remove(&cache.path).await {
        Ok(plan) => {
            let body = if cache.ssd.is_memory() {
                gettext(
                    "{disk} then works without the cache, with all its files as they are now. Programs can use the memory again.",
                )
            } else {
                gettext(
                    "{disk} then works without the SSD, with all its files as they are now. You can use the SSD for something else.",
                )
            };
            let writes = plan.steps.iter().any(|step| step.kind == StepKind::Drain);
            let (heading, agree) = if cache.state == CacheState::Pending {
                (gettext("Cancel Setup?"), gettext("_Cancel Setup"))
            } else if writes {
                (
                    gettext("Write Back and Remove?"),
                    gettext("_Write Back and Remove"),
                )
            } else {
                (gettext("Remove Cache?"), gettext("_Remove Cache"))
            };
            let body = fill(&body, &[("disk", &plan_title(&cache.origin))]);
            let question = Question {
                kind: JobKind::Remove,
                heading,
                body: [body, removal_time(writes, seconds)].join("\n\n"),
                agree,
                decline: if cache.state == CacheState::Pending {
                    gettext("_Keep Setup")
                } else {
                    gettext("_Cancel")
                },
                loses: false,
            };
            ask(parent, client, cache, plan, &question);
        }
        Err(failure) => show_refusal(parent, client, cache, &failure),
    }
}

/// Shows why a cache cannot be removed or flushed, before its job or at the end of it. Data that cannot be written to
/// the disk can be discarded: a broken SSD must not keep a person from the plain disk.
pub fn show_refusal(
    parent: Option<&gtk::Window>,
    client: &Client,
    cache: &CacheFacts,
    failure: &Failure,
) {
    // The name "dirty" means data that was saved after the flush: that data can still be written back.
    if failure.kind == Kind::UnwrittenData && failure.name != "dirty" {
        offer_to_discard(parent, client, cache, failure);
    } else {
        show_failure(parent, failure);
    }
}

/// Shows what keeps data from being written to the disk, and offers to discard that data.
fn offer_to_discard(
    parent: Option<&gtk::Window>,
    client: &Client,
    cache: &CacheFacts,
    failure: &Failure,
) {
    let dialog = failure_dialog(parent, failure);
    dialog.add_responses(&[
        ("discard", &gettext("_Discard…")),
        ("close", &gettext("_Close")),
    ]);
    dialog.set_default_response(Some("close"));
    dialog.set_close_response("close");
    let (parent, client, cache) = (parent.cloned(), client.clone(), cache.clone());
    dialog.connect_response(Some("discard"), move |_, _| {
        let (parent, client, cache) = (parent.clone(), client.clone(), cache.clone());
        glib::spawn_future_local(async move {
            match client.plan_discard(&cache.path).await {
                Ok(plan) => {
                    let question = Question {
                        kind: JobKind::Remove,
                        heading: gettext("Discard Unwritten Data?"),
                        body: [what_is_discarded(&plan), removal_time(false, 0)].join("\n\n"),
                        agree: gettext("_Discard and Remove"),
                        decline: gettext("_Cancel"),
                        loses: true,
                    };
                    ask(parent.as_ref(), &client, &cache, plan, &question);
                }
                Err(failure) => show_failure(parent.as_ref(), &failure),
            }
        });
    });
    show(&dialog);
}

/// The devices and the amount of data as they are known now: the amount may have changed since the failure.
fn what_is_discarded(plan: &PlanReply) -> String {
    let amount = plan.lost_bytes();
    let lost = if amount > 0 {
        gettext("{amount} of data stored only on {ssd} will be lost.")
    } else {
        gettext("Data stored only on {ssd} will be lost.")
    };
    let after =
        gettext("{disk} then works without the SSD. Check its file system before you use it.");
    fill(
        &[lost, after].join("\n\n"),
        &[
            ("amount", &bytes(amount)),
            ("ssd", &full_title(&plan.ssd)),
            ("disk", &full_title(&plan.origin)),
        ],
    )
}

/// The words of a question before a job on a cache.
pub(super) struct Question {
    /// The job.
    pub kind: JobKind,
    /// The question in a few words.
    pub heading: String,
    /// The meaning of the job for the person.
    pub body: String,
    /// The label of the button that agrees, with its mnemonic.
    pub agree: String,
    /// The label of the button that changes nothing.
    pub decline: String,
    /// Whether agreeing loses data.
    pub loses: bool,
}

/// Least width of the steps in pixels, where the window under the dialog is wide enough.
const STEPS_WIDTH: i32 = 440;
/// Width of the margins of the dialog and of its frame at both sides of the steps, in pixels.
const MARGINS: i32 = 110;

/// Shows the steps of a plan, and executes them if the person agrees.
pub(super) fn ask(
    parent: Option<&gtk::Window>,
    client: &Client,
    cache: &CacheFacts,
    plan: PlanReply,
    question: &Question,
) {
    let steps: StepList = glib::Object::new();
    steps.show(&plan.steps);
    let more = gtk::Box::builder()
        .orientation(gtk::Orientation::Vertical)
        .spacing(12)
        .build();
    for warning in &plan.warnings {
        more.append(
            &gtk::Label::builder()
                .label(warning_words(warning, None))
                .wrap(true)
                // Centred like the other words of the dialog, which libadwaita centres.
                .justify(gtk::Justification::Center)
                .build(),
        );
    }
    more.append(&steps);
    // libadwaita makes a dialog narrow whose answers do not fit beside each other, and the steps long.
    let room = parent.map_or(0, |parent| parent.width() - MARGINS);
    more.set_width_request(room.clamp(-1, STEPS_WIDTH));
    let dialog = adw::MessageDialog::builder()
        .heading(&question.heading)
        .body(&question.body)
        .body_use_markup(false)
        .extra_child(&more)
        .build();
    dialog.set_transient_for(parent);
    dialog.add_responses(&[("cancel", &question.decline), ("agree", &question.agree)]);
    // Red is for what is lost.
    let appearance = if question.loses {
        adw::ResponseAppearance::Destructive
    } else {
        adw::ResponseAppearance::Suggested
    };
    dialog.set_response_appearance("agree", appearance);
    dialog.set_default_response(Some("cancel"));
    dialog.set_close_response("cancel");
    let (client, path) = (client.clone(), cache.path.clone());
    let (parent, kind) = (parent.cloned(), question.kind);
    dialog.connect_response(Some("agree"), move |_, _| {
        let (client, path, plan, parent) =
            (client.clone(), path.clone(), plan.clone(), parent.clone());
        glib::spawn_future_local(async move {
            let begun = match kind {
                JobKind::Resize => client.resize(&path, &plan).await,
                _ => client.remove(&path, &plan).await,
            };
            if let Err(failure) = begun {
                show_failure(parent.as_ref(), &failure);
            }
        });
    });
    show(&dialog);
}

/// The failure of the window itself to write a file.
pub fn not_saved(file: &gio::File, error: &glib::Error) -> Failure {
    let detail = format!("{}: {error}", file.parse_name());
    Failure::new(Kind::Internal).name(NOT_SAVED).detail(detail)
}

/// Shows a failure that no page shows.
pub fn show_failure(parent: Option<&gtk::Window>, failure: &Failure) {
    let dialog = failure_dialog(parent, failure);
    dialog.add_responses(&[
        ("copy", &gettext("_Copy Details")),
        ("close", &gettext("_Close")),
    ]);
    dialog.set_default_response(Some("close"));
    dialog.set_close_response("close");
    let words = failure_words(failure);
    dialog.connect_response(Some("copy"), move |dialog, _| {
        dialog
            .clipboard()
            .set_text(&[words.title.as_str(), &words.what, &words.details].join("\n"));
    });
    show(&dialog);
}

/// Shows the dialog with the focus on its default answer, so that the other answers are one key away, however long the
/// text is.
pub(super) fn show(dialog: &adw::MessageDialog) {
    a11y::name_by_labels(dialog);
    // Without this, libadwaita moves the focus to the first widget that takes it when the dialog is mapped.
    dialog.connect_map(|dialog| {
        let default = dialog.default_widget();
        GtkWindowExt::set_focus(dialog, default.as_ref());
    });
    dialog.present();
}

/// Makes a dialog with what happened and the details to unfold.
fn failure_dialog(parent: Option<&gtk::Window>, failure: &Failure) -> adw::MessageDialog {
    let words = failure_words(failure);
    let details = gtk::Label::builder()
        .label(&words.details)
        .wrap(true)
        .wrap_mode(gtk::pango::WrapMode::Char)
        .selectable(true)
        .xalign(0.0)
        .build();
    details.add_css_class("monospace");
    details.add_css_class("card");
    details.add_css_class("details");
    let expander = gtk::Expander::builder()
        .label(gettext("_Details"))
        .use_underline(true)
        .child(&details)
        .build();
    let dialog = adw::MessageDialog::builder()
        .heading(&words.title)
        .body(words.sentences())
        .body_use_markup(false)
        .extra_child(&expander)
        .build();
    dialog.set_transient_for(parent);
    dialog
}
