// SPDX-License-Identifier: GPL-3.0-or-later
//! A job on the screen, from its beginning to its end or to the end of the service.

use crate::{Ending, emit, say, words};
use futures_util::{FutureExt, StreamExt, select};
use gettextrs::gettext;
use std::time::Duration;
use tandem_api::{BUS_NAME, JobProxy, Kind, Step, StepKind};
use tandem_words::{fill, progress_words};
use zbus::fdo::DBusProxy;
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath};

/// Time between two lines about a step that moves data.
const NEWS: Duration = Duration::from_secs(5);

/// Shows a job until it ends.
pub async fn follow(
    connection: &Connection,
    job: OwnedObjectPath,
    json: bool,
) -> Result<(), Ending> {
    let bus = DBusProxy::new(connection).await?;
    let mut lost = bus
        .receive_name_owner_changed_with_args(&[(0, BUS_NAME), (2, "")])
        .await?
        .fuse();
    let follow = follow_job(connection, job, json).fuse();
    futures_util::pin_mut!(follow);
    select! {
        // When the service dies, its name leaves the bus.
        _ = lost.next() => Err(Ending::Lost),
        ended = follow => match ended {
            // The service left the bus during a call, before the signal of the loss arrived.
            Err(Ending::Failure(failure)) if failure.kind == Kind::ServiceUnavailable => {
                Err(Ending::Lost)
            }
            other => other,
        },
    }
}

async fn follow_job(
    connection: &Connection,
    job: OwnedObjectPath,
    json: bool,
) -> Result<(), Ending> {
    let job = JobProxy::builder(connection)
        .path(job)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let changes = zbus::fdo::PropertiesProxy::builder(connection)
        .destination(BUS_NAME)
        .path(job.inner().path().clone())
        .build()
        .await?;
    let mut completed = job.receive_completed().await?.fuse();
    let mut changed = changes.receive_properties_changed().await?.fuse();
    let steps = job.steps().await?;
    let mut said = Said::default();
    loop {
        // The state is read after the subscription: a job that ended before has no signal left.
        let (over, success, failure) = job.finished().await?;
        if over {
            if !success {
                return Err(Ending::Failure(Box::new(failure)));
            }
            match json {
                true => emit(serde_json::json!({ "success": true, "failure": null })),
                false => say(gettext("Done.")),
            }
            return Ok(());
        }
        if !json {
            said.news(&job, &steps).await?;
        }
        select! {
            _ = completed.next() => {}
            _ = changed.next() => {}
        }
    }
}

/// What the command has printed about a job.
#[derive(Default)]
struct Said {
    step: Option<(u32, bool)>,
    paused: bool,
    moved: Option<std::time::Instant>,
}

impl Said {
    /// Prints the changes since the last call.
    async fn news(&mut self, job: &JobProxy<'_>, steps: &[Step]) -> Result<(), Ending> {
        let (at, undoing) = (job.step_index().await?, job.undoing().await?);
        let step = usize::try_from(at).ok().and_then(|at| steps.get(at));
        if self.step != Some((at, undoing))
            && let Some(step) = step
        {
            let line = match undoing {
                false => gettext("[step {number}/{count}] {step}"),
                true => gettext("[undoing {number}/{count}] {step}"),
            };
            say(fill(
                &line,
                &[
                    ("number", &(at + 1).to_string()),
                    ("count", &steps.len().to_string()),
                    ("step", &words::step(step)),
                ],
            ));
            self.step = Some((at, undoing));
        }
        if undoing || step.is_none_or(|step| step.kind != StepKind::Drain) {
            return Ok(());
        }
        let paused = job.paused().await?;
        if paused != self.paused {
            say(match paused {
                true => gettext("Waiting."),
                false => gettext("Going on."),
            });
            self.paused = paused;
        }
        let due = self.moved.is_none_or(|then| then.elapsed() > NEWS);
        if due && !paused {
            say(progress_words(
                job.progress().await?,
                job.rate_bytes().await?,
                job.estimated_seconds().await?,
            ));
            self.moved = Some(std::time::Instant::now());
        }
        Ok(())
    }
}
