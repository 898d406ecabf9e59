// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks for another size of a cache, shows what that means for its SSD, and begins it.

use std::collections::HashMap;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use tandem_api::{Failure, JobKind, Kind, SsdPart, StepKind};

use crate::a11y;
use crate::client::Client;
use crate::display::{
    bytes, cache_room, fill, percent, plain_name, plan_title, removal_time, resized_shares,
};
use crate::model::facts::CacheFacts;
use crate::model::inventory::Medium;
use crate::model::objects::{CacheObject, DeviceObject};
use crate::model::store::{Store, objects};
use crate::widgets::choice_window::ChoiceWindow;
use crate::widgets::remove_dialog::{Question, ask, show_failure};
use crate::widgets::size_row::{SizeRange, SizeRow};
use crate::widgets::ssd_bar::SsdBar;

/// Shows how the SSD of a cache is shared, and asks for the new size of the cache. The cache's job shows the progress.
/// `seconds` is how long writing the dirty data to the disk takes, 0 if that time is not known.
pub async fn ask_for_size(
    parent: Option<&gtk::Window>,
    client: &Client,
    store: &Store,
    cache: &CacheFacts,
    seconds: u64,
) {
    let (layout, room) = match look(client, store, cache).await {
        Ok(found) => found,
        Err(failure) => return show_failure(parent, &failure),
    };
    let range = SizeRange {
        least: store.minimum_ssd_bytes(),
        most: room,
    };
    let before = cache.ssd.size;
    let ChoiceWindow {
        window,
        content,
        go_on,
        ..
    } = ChoiceWindow::new(
        parent,
        &gettext("Change the Size of the Cache"),
        &gettext("C_ontinue"),
    );
    go_on.add_css_class("suggested-action");
    let row = SizeRow::default();
    row.offer(range, before, "");
    let bar = SsdBar::default();
    let words = gtk::Label::builder()
        .label(gettext(
            "If the cache can stay in its place on the SSD, it keeps a part of what it holds. Otherwise it starts empty. Nothing on the hard disk changes, and your files stay available.",
        ))
        .wrap(true)
        .xalign(0.0)
        .build();
    content.append(&row);
    content.append(&bar);
    content.append(&words);
    let disks = disk_names(store);
    let uuid = cache.uuid.clone();
    let preview = move |bar: &SsdBar, wanted: u64| {
        bar.show(&resized_shares(&layout, &uuid, wanted, &disks));
    };
    preview(&bar, before);
    row.connect_changed(clone!(
        #[weak]
        bar,
        #[weak]
        go_on,
        move |wanted| {
            preview(&bar, wanted);
            go_on.set_sensitive(wanted != before);
        }
    ));
    let (client, cache, parent) = (client.clone(), cache.clone(), parent.cloned());
    go_on.connect_clicked(clone!(
        #[weak]
        window,
        #[weak]
        row,
        move |_| {
            window.close();
            let (client, cache, parent) = (client.clone(), cache.clone(), parent.clone());
            let wanted = row.bytes();
            glib::spawn_future_local(async move {
                review(parent.as_ref(), &client, &cache, wanted, seconds).await;
            });
        }
    ));
    a11y::name_by_labels(&window);
    window.present();
}

/// The parts of the SSD of a cache, and the most bytes that the cache can have there.
async fn look(
    client: &Client,
    store: &Store,
    cache: &CacheFacts,
) -> Result<(Vec<SsdPart>, u64), Failure> {
    // A cache whose size can be changed has no plan for its present size.
    match client.plan_resize(&cache.path, cache.ssd.size).await {
        Err(failure) if failure.kind != Kind::InvalidArgument => return Err(failure),
        _ => {}
    }
    let list = store.devices();
    let ssds = objects::<DeviceObject>(&list)
        .map(|device| device.facts())
        .filter(|device| device.medium == Medium::Ssd);
    for ssd in ssds.collect::<Vec<_>>() {
        let layout = client.ssd_layout(&ssd.path).await?;
        if let Some(room) = cache_room(&layout, &cache.uuid) {
            return Ok((layout, room));
        }
    }
    Err(Failure::new(Kind::DeviceGone).device(&cache.ssd))
}

/// The name of the disk of each cache, by uuid.
pub fn disk_names(store: &Store) -> HashMap<String, String> {
    let list = store.caches();
    let caches = objects::<CacheObject>(&list).map(|cache| cache.facts());
    caches
        .map(|cache| (cache.uuid, plain_name(&cache.origin)))
        .collect()
}

/// Shows the steps, and executes them if the person agrees.
async fn review(
    parent: Option<&gtk::Window>,
    client: &Client,
    cache: &CacheFacts,
    wanted: u64,
    seconds: u64,
) {
    let plan = match client.plan_resize(&cache.path, wanted).await {
        Ok(plan) => plan,
        Err(failure) => return show_failure(parent, &failure),
    };
    let has = |kind| plan.steps.iter().any(|step| step.kind == kind);
    let writes = has(StepKind::Drain);
    let body = fill(
        &gettext("The cache of {disk} changes from {before} to {after}."),
        &[
            ("disk", &plan_title(&cache.origin)),
            ("before", &bytes(cache.ssd.size)),
            ("after", &bytes(plan.ssd.size)),
        ],
    );
    let mut parts = vec![body];
    if has(StepKind::ResizeCache) {
        let (before, after) = (cache.ssd.size, plan.ssd.size);
        let kept = before.min(after) as f64 / before.max(after).max(1) as f64;
        // The share of the groups of slots that stay (kmod/FORMAT.md).
        parts.push(fill(
            &gettext("It keeps about {share} of what it can hold now."),
            &[("share", &percent(kept))],
        ));
    }
    parts.push(removal_time(writes, seconds));
    let question = Question {
        kind: JobKind::Resize,
        heading: gettext("Change the Size?"),
        body: parts.join("\n\n"),
        agree: if writes {
            gettext("_Write Back and Change Size")
        } else {
            gettext("_Change Size")
        },
        decline: gettext("_Keep Size"),
        loses: false,
    };
    ask(parent, client, cache, plan, &question);
}
