// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading from devices for a plan: one that does not answer keeps nobody from planning with others.

use super::Service;
use crate::facts::Device;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tandem_api::{Failure, Kind};

/// A disk that sleeps takes 10 s to spin up.
const LIMIT: Duration = Duration::from_secs(15);

/// What a device is read for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    Claimed,
    Blank,
}

/// Object paths of devices that are being read. A read that hangs cannot be stopped, so that it is not
/// begun twice.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<BTreeSet<String>>);

impl Reading {
    fn objects(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `read`, which goes on by itself if it takes longer than `limit`.
    ///
    /// # Errors
    /// `StepFailed` if it does, or as long as an earlier one of this device goes on.
    async fn within<T: Send + 'static>(
        self: &Arc<Self>,
        device: &Device,
        limit: Duration,
        read: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let silent = || {
            Failure::new(Kind::StepFailed)
                .device(&device.ident.text)
                .detail("the device does not answer")
        };
        let object = device.object().to_owned();
        if !self.objects().insert(object.clone()) {
            return Err(silent());
        }
        let this = self.clone();
        let task = tokio::spawn(async move {
            let result = read.await;
            this.objects().remove(&object);
            result
        });
        match tokio::time::timeout(limit, task).await {
            Ok(ended) => ended.map_err(|e| Failure::new(Kind::Internal).detail(e))?,
            Err(_) => Err(silent()),
        }
    }
}

impl Service {
    /// Reads from a device.
    pub(super) async fn read(&self, question: Question, device: &Device) -> Result<bool, Failure> {
        let (engine, copy) = (self.engine.clone(), device.clone());
        let read = async move {
            match question {
                Question::Claimed => engine.claimed(&copy).await,
                Question::Blank => engine.blank(&copy).await,
            }
        };
        self.reading.within(device, LIMIT, read).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::device;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_device_that_does_not_answer_is_refused_until_it_has_and_others_are_read() {
        let (hangs, answers) = (&device("sda1", 1 << 30), &device("sdb", 1 << 30));
        let reading = Arc::new(Reading::default());
        let short = Duration::from_millis(20);
        let (answer, waits) = oneshot::channel::<()>();
        let (over, ended) = oneshot::channel::<()>();
        let hung = async move {
            let _ = waits.await;
            let _ = over.send(());
            Ok(true)
        };
        let refused = reading.within(hangs, short, hung).await.unwrap_err();
        assert_eq!(refused.device, hangs.ident.text);
        let again = reading.within(hangs, LIMIT, async { Ok(true) }).await;
        assert_eq!(again.unwrap_err().kind, Kind::StepFailed);
        let other = reading.within(answers, LIMIT, async { Ok(true) }).await;
        assert!(other.unwrap());
        answer.send(()).unwrap();
        ended.await.unwrap();
        // It is off the list with its next step.
        tokio::task::yield_now().await;
        let then = reading.within(hangs, LIMIT, async { Ok(true) }).await;
        assert!(then.unwrap());
    }
}
