// SPDX-License-Identifier: GPL-3.0-or-later
//! Before a cache is undone, its SSD must be clean, and the undo must not make it dirty again.

use super::{attached, drain::QUERY_INTERVAL, module_status};
use crate::host::Host;
use crate::machine::dm::message::{Flush, Message};
use crate::model::live::Status;
use std::time::Duration;
use tandem_api::{Failure, Kind, Mode, SECTOR_BYTES};
use tokio::time::Instant;

/// The module limits dirty data to the amount that the disk takes in 30 s. The other 30 s are for errors of its
/// estimate and for a disk with other work.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes every write go to the disk from now on, and waits until no data is on the SSD only. If that fails, the cache
/// goes on in its mode.
///
/// # Errors
/// `UnwrittenData`, or that the module cannot be asked.
pub(super) async fn settle(host: &dyn Host, uuid: &str) -> Result<(), Failure> {
    if !attached(host, uuid).await? {
        return Ok(());
    }
    let before = module_status(host, uuid).await?;
    if before.mode != Mode::Writeback && before.sample.dirty_sectors == 0 {
        return Ok(());
    }
    let settled = async {
        host.send_message(uuid, Message::Mode(Mode::Writethrough))
            .await?;
        host.send_message(uuid, Message::Flush(Flush::Start))
            .await?;
        wait(host, uuid).await
    }
    .await;
    if settled.is_err() {
        let back = [Message::Flush(Flush::Stop), Message::Mode(before.mode)];
        for message in back {
            if let Err(e) = host.send_message(uuid, message).await {
                tracing::warn!("the cache does not go on as before: {e}");
            }
        }
        return settled;
    }
    // In write-through nothing gets dirty without it.
    host.send_message(uuid, Message::Flush(Flush::Stop)).await
}

async fn wait(host: &dyn Host, uuid: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    // Requests that were under way when the flush began may still have left something.
    let mut clean = false;
    loop {
        let status = module_status(host, uuid).await?;
        let was = std::mem::replace(&mut clean, status.sample.dirty_sectors == 0);
        if clean && was {
            return Ok(());
        }
        if is_stranded(&status) || begun.elapsed() > LIMIT {
            let bytes = status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
            return Err(Failure::new(Kind::UnwrittenData)
                .sizes(bytes, 0)
                .detail(&status.reason));
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
}

/// The SSD has dirty data and accepts or gives none.
fn is_stranded(status: &Status) -> bool {
    status.sample.dirty_sectors > 0 && status.reason.starts_with("ssd-")
}
