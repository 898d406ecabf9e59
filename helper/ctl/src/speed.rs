// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl speed-test`: follows a test, and prints its result.

use crate::{Ending, emit, say};
use futures_util::{FutureExt, StreamExt, select};
use gettextrs::gettext;
use std::time::{Duration, Instant};
use tandem_api::{ManagerProxy, SpeedTest};
use tandem_words::{fill, percent, speed_words};

/// Time between two lines about the progress.
const NEWS: Duration = Duration::from_secs(5);

/// Makes the call `test`, shows the progress, and prints the result. The service ends the test if this program ends.
pub async fn show(
    manager: &ManagerProxy<'_>,
    test: impl Future<Output = zbus::Result<SpeedTest>>,
    json: bool,
) -> Result<(), Ending> {
    let mut told = manager.receive_speed_test_progressed().await?.fuse();
    let test = test.fuse();
    futures_util::pin_mut!(test);
    let mut said: Option<(bool, Instant)> = None;
    let result = loop {
        select! {
            result = test => break result?,
            signal = told.next() => {
                let Some(signal) = signal else { continue };
                let progress = signal.args()?;
                let new = said.is_none_or(|(through_cache, at)| {
                    through_cache != progress.through_cache || at.elapsed() >= NEWS
                });
                if new && !json {
                    let words = match progress.through_cache {
                        true => gettext("{done}: reading through the cache"),
                        false => gettext("{done}: reading from the disk"),
                    };
                    say(fill(&words, &[("done", &percent(progress.done))]));
                    said = Some((progress.through_cache, Instant::now()));
                }
            }
        }
    };
    print(&result, json);
    Ok(())
}

/// Prints the last result of a cache.
pub fn show_last(result: &SpeedTest, json: bool) -> Result<(), Ending> {
    if result.is_none() {
        let text = gettext("This cache was not tested yet. See “tandemctl speed-test”.");
        return Err(Ending::Usage(text));
    }
    print(result, json);
    Ok(())
}

fn print(result: &SpeedTest, json: bool) {
    if json {
        emit(serde_json::json!({ "speed_test": result }));
    } else {
        say(speed_words(result).spoken());
    }
}
