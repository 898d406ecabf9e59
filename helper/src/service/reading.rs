// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads from devices for a plan. A device that does not answer does not delay plans with other devices.

use super::Service;
use super::plans::Rights;
use crate::model::facts::Device;
use crate::model::other_format::Format;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tandem_api::{Failure, Kind};
use tokio::sync::watch;

/// A disk that sleeps takes 10 s to spin up.
const LIMIT: Duration = Duration::from_secs(15);

/// Most reads in progress for plans of all users, and most reads beside them for authorised jobs. A read that hangs
/// keeps a thread, and the service has 32 threads: loop devices over a file system that does not answer must not keep
/// all of them.
const MAX_READS: usize = 8;
const MAX_AUTHORISED_READS: usize = 16;

/// The question that a read answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// Whether another program holds the device exclusively. Opens it exclusively for a moment.
    Claimed,
    /// Whether the read finds only zeroes on the device.
    Blank,
    /// Whether the device has a cache of this format.
    Carries(Format),
}

/// The result of a read; `None` while the read goes on.
type Answer = Option<Result<bool, Failure>>;

/// Sequence number and object path of a device, and the question. A device that is plugged in again may get the object
/// path of an earlier device.
type Key = (u64, String, Question);

/// Reads in progress. A read that hangs cannot be stopped, so no second read is begun beside it: a caller with the same
/// question waits for the answer of the first.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<BTreeMap<Key, watch::Receiver<Answer>>>);

impl Reading {
    fn reads(&self) -> MutexGuard<'_, BTreeMap<Key, watch::Receiver<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer of `read`, or of a read in progress for the same question. A read that takes longer than
    /// `limit` goes on in the background.
    ///
    /// # Errors
    /// `StepFailed` if there is no answer after `limit`; `TooMany` reads in progress; the error of the read.
    async fn read_with_limit(
        self: &Arc<Self>,
        (question, rights): (Question, Rights),
        device: &Device,
        limit: Duration,
        read: impl Future<Output = Result<bool, Failure>> + Send + 'static,
    ) -> Result<bool, Failure> {
        let key = (device.ident.diskseq, device.object().to_owned(), question);
        let mut answer = {
            let mut reads = self.reads();
            let most = match rights {
                Rights::None => MAX_READS,
                Rights::Authorised => MAX_AUTHORISED_READS,
            };
            match reads.get(&key).cloned() {
                Some(going_on) => going_on,
                None if reads.len() >= most => {
                    let refused = Failure::new(Kind::TooMany).device(&device.ident.text);
                    return Err(refused.detail("too many devices do not answer"));
                }
                None => {
                    let (tell, answer) = watch::channel(None);
                    reads.insert(key.clone(), answer.clone());
                    let (this, key) = (self.clone(), key.clone());
                    tokio::spawn(async move {
                        let result = read.await;
                        this.reads().remove(&key);
                        tell.send_replace(Some(result));
                    });
                    answer
                }
            }
        };
        let answered = tokio::time::timeout(limit, answer.wait_for(Option::is_some)).await;
        match answered.map(|ended| ended.map(|answer| answer.clone())) {
            Ok(Ok(Some(result))) => result,
            Ok(_) => {
                // The read panicked.
                self.reads().remove(&key);
                Err(Failure::new(Kind::Internal).device(&device.ident.text))
            }
            Err(_) => Err(Failure::new(Kind::StepFailed)
                .device(&device.ident.text)
                .detail("the device does not answer")),
        }
    }
}

impl Service {
    /// Reads from a device.
    pub(super) async fn read(
        &self,
        question: Question,
        rights: Rights,
        device: &Device,
    ) -> Result<bool, Failure> {
        let (host, copy) = (self.host.clone(), device.clone());
        let read = async move {
            match question {
                Question::Claimed => host.claimed(&copy).await,
                Question::Blank => host.blank(&copy).await,
                Question::Carries(format) => host.carries(&copy, format).await,
            }
        };
        let asked = (question, rights);
        self.reading
            .read_with_limit(asked, device, LIMIT, read)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::device;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_device_that_does_not_answer_is_refused_while_others_are_read() {
        let (hangs, answers) = (&device("sda1", 1 << 30), &device("sdb", 1 << 30));
        let reading = Arc::new(Reading::default());
        let short = Duration::from_millis(20);
        let (answer, waits) = oneshot::channel::<()>();
        let hung = async move {
            let _ = waits.await;
            Ok(true)
        };
        let blank = (Question::Blank, Rights::None);
        let refused = reading
            .read_with_limit(blank, hangs, short, hung)
            .await
            .unwrap_err();
        assert_eq!(refused.device, hangs.ident.text);
        let no_second = async { unreachable!("a second read was begun") };
        let again = reading
            .read_with_limit(blank, hangs, short, no_second)
            .await;
        assert_eq!(again.unwrap_err().kind, Kind::StepFailed);
        let other = reading.read_with_limit(blank, answers, LIMIT, async { Ok(true) });
        assert!(other.await.unwrap());
        // Another device has the name by now.
        let mut replaced = hangs.clone();
        replaced.ident.diskseq += 1;
        let other = reading.read_with_limit(blank, &replaced, LIMIT, async { Ok(true) });
        assert!(other.await.unwrap());
        // The waiting task gets the answer of the read that was begun first.
        let waiting = reading.clone();
        let device = hangs.clone();
        let joined = tokio::spawn(async move {
            let own = async { Ok(false) };
            waiting.read_with_limit(blank, &device, LIMIT, own).await
        });
        tokio::task::yield_now().await;
        answer.send(()).unwrap();
        assert!(joined.await.unwrap().unwrap());
        let then = reading.read_with_limit(blank, hangs, LIMIT, async { Ok(false) });
        assert!(!then.await.unwrap());
    }

    #[tokio::test]
    async fn devices_that_hang_do_not_take_all_threads_of_the_service() {
        let reading = Arc::new(Reading::default());
        let short = Duration::from_millis(1);
        let ask = async |number: usize, rights| {
            let device = device(&format!("loop{number}"), 1 << 30);
            let asked = (Question::Blank, rights);
            let hung = std::future::pending();
            let answer = reading.read_with_limit(asked, &device, short, hung).await;
            answer.unwrap_err().kind
        };
        for number in 0..MAX_READS {
            assert_eq!(ask(number, Rights::None).await, Kind::StepFailed);
        }
        assert_eq!(ask(MAX_READS, Rights::None).await, Kind::TooMany);
        // A plan for a device that is being read already causes no further read.
        assert_eq!(ask(0, Rights::None).await, Kind::StepFailed);
        // The reads of plans do not keep an authorised job from its devices.
        assert_eq!(ask(MAX_READS, Rights::Authorised).await, Kind::StepFailed);
        for number in MAX_READS..MAX_AUTHORISED_READS {
            ask(number, Rights::Authorised).await;
        }
        let last = ask(MAX_AUTHORISED_READS, Rights::Authorised).await;
        assert_eq!(last, Kind::TooMany);
    }
}
