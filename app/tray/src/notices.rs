// SPDX-License-Identifier: GPL-3.0-or-later
//! Notifications of the desktop, also where it has no place for indicators. There are few: what a person has to know
//! even if no window is open.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use gettextrs::gettext;
use tandem_words::fill;
use zbus::{Variant, connection, proxy};

use crate::words::{self, Shown, escaped};

/// The name of the window's icon and desktop file.
const APP_ID: &str = "org.tandemcache.Tandem";

/// Reasons of a state that are worth a notification. A disk that the person has taken off is not.
const ALARMING: [&str; 8] = [
    "disk-changed",
    "disk-elsewhere",
    "disk-error",
    "disk-in-doubt",
    "ssd-damaged",
    "ssd-error",
    "ssd-gone-dirty",
    "ssd-missing",
];

/// How long the desktop may take to answer. The indicator waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(25);

/// The desktop's notifications.
#[proxy(
    interface = "org.freedesktop.Notifications",
    default_service = "org.freedesktop.Notifications",
    default_path = "/org/freedesktop/Notifications"
)]
trait Notifications {
    #[allow(
        clippy::too_many_arguments,
        reason = "the specification of the desktops"
    )]
    fn notify(
        &self,
        app_name: &str,
        replaces_id: u32,
        app_icon: &str,
        summary: &str,
        body: &str,
        actions: &[&str],
        hints: HashMap<&str, Variant<'_>>,
        expire_timeout: i32,
    ) -> zbus::Result<u32>;

    fn close_notification(&self, id: u32) -> zbus::Result<()>;

    #[zbus(signal)]
    fn action_invoked(&self, id: u32, action_key: &str) -> zbus::Result<()>;
}

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Notice {
    /// The subject of the notification. While the subject lasts, the notification is shown once.
    about: String,
    title: String,
    body: String,
}

/// The notices that the caches, and the kernels without the module, ask for.
fn wanted(caches: &[Shown], kernels: &[String]) -> Vec<Notice> {
    let mut all = Vec::new();
    for cache in caches {
        let uuid = &cache.uuid;
        if cache.ssd_failing {
            all.push(Notice {
                about: format!("{uuid} failing"),
                title: fill(
                    &gettext("{disk}: the SSD reports that it is failing"),
                    &[("disk", &cache.disk)],
                ),
                body: words::safety_line(cache),
            });
        }
        if ALARMING.contains(&cache.reason.as_str()) {
            all.push(Notice {
                about: format!("{uuid} {}", cache.reason),
                title: words::line(cache),
                body: words::safety_line(cache),
            });
        }
    }
    all.extend(words::kernels(kernels).map(|body| Notice {
        about: format!("kernels {}", kernels.join(" ")),
        title: gettext("Before you restart"),
        body,
    }));
    all
}

/// The notifications that are shown.
pub struct Notices {
    desktop: Option<NotificationsProxy<'static>>,
    /// Numbers of the desktop, by what the notifications are about; 0 if the desktop did not take one.
    shown: BTreeMap<String, u32>,
}

impl Notices {
    /// Connects to the desktop. Without one there are no notifications.
    pub async fn new() -> Self {
        let desktop = connect()
            .await
            .inspect_err(|error| tracing::info!("no notifications: {error}"));
        Self {
            desktop: desktop.ok(),
            shown: BTreeMap::new(),
        }
    }

    /// The numbers of the notifications that a person activates.
    pub async fn activated(&self) -> impl Stream<Item = u32> + Unpin + use<> {
        let signals = match &self.desktop {
            Some(desktop) => desktop.receive_action_invoked().await.ok(),
            None => None,
        };
        let ids = signals.map(|signals| {
            signals.filter_map(|signal| {
                std::future::ready(signal.args().ok().map(|arguments| arguments.id))
            })
        });
        stream::iter(ids).flatten()
    }

    /// Whether a number is that of a notification of this program.
    pub fn is_ours(&self, id: u32) -> bool {
        self.shown.values().any(|shown| *shown == id)
    }

    /// Shows what is new, and closes what is over.
    pub async fn update(&mut self, caches: &[Shown], kernels: &[String]) {
        let Some(desktop) = &self.desktop else { return };
        let wanted = wanted(caches, kernels);
        let is_over = |about: &String| wanted.iter().all(|notice| notice.about != *about);
        let over: Vec<_> = self.shown.keys().filter(|a| is_over(a)).cloned().collect();
        for about in over {
            if let Some(id) = self.shown.remove(&about).filter(|id| *id > 0)
                && let Err(error) = desktop.close_notification(id).await
            {
                // The person has closed it before.
                tracing::debug!("a notification is not closed: {error}");
            }
        }
        for notice in wanted {
            if self.shown.contains_key(&notice.about) {
                continue;
            }
            let actions = ["default", &gettext("Open Tandem")];
            let told = show(desktop, &notice.title, &notice.body, &actions, 2).await;
            let id = told.unwrap_or_else(|error| {
                tracing::warn!("the desktop shows no notification: {error}");
                0
            });
            self.shown.insert(notice.about, id);
        }
    }
}

/// Shows one notification that nothing takes back.
pub async fn tell(title: &str) {
    let shown = async {
        let desktop = connect().await?;
        show(&desktop, title, "", &[], 1).await
    };
    if let Err(error) = shown.await {
        tracing::warn!("the desktop shows no notification: {error}");
    }
}

async fn connect() -> zbus::Result<NotificationsProxy<'static>> {
    let session = connection::Builder::session().method_timeout(PATIENCE);
    let session = session.build().await?;
    NotificationsProxy::new(&session).await
}

/// Shows a notification, and returns its number. `urgency`: 1 is normal; 2 is critical, and the desktop shows it until
/// the person closes it.
async fn show(
    desktop: &NotificationsProxy<'_>,
    title: &str,
    body: &str,
    actions: &[&str],
    urgency: u8,
) -> zbus::Result<u32> {
    let hints = HashMap::from([
        ("desktop-entry", Variant::new(APP_ID)),
        ("urgency", Variant::new(urgency)),
    ]);
    let body = escaped(body);
    desktop
        .notify("Tandem", 0, APP_ID, title, &body, actions, hints, -1)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::cache;
    use tandem_api::CacheState;

    fn about(caches: &[Shown], kernels: &[String]) -> Vec<String> {
        let wanted = wanted(caches, kernels).into_iter();
        wanted.map(|notice| notice.about).collect()
    }

    #[test]
    fn only_what_a_person_has_to_know_is_told() {
        let good = cache(CacheState::Active, None);
        let reason = |state, reason: &str| Shown {
            uuid: "ab".into(),
            reason: reason.into(),
            ..cache(state, None)
        };
        let quiet = [
            good.clone(),
            reason(CacheState::Stopped, "disk-missing"),
            reason(CacheState::Stopped, "stopped"),
            reason(CacheState::Suspended, ""),
        ];
        assert!(about(&quiet, &[]).is_empty());
        let gone = reason(CacheState::Stopped, "ssd-missing");
        assert_eq!(about(&[gone], &[]), ["ab ssd-missing"]);
        let failing = Shown {
            ssd_failing: true,
            ..good
        };
        let kernels = ["6.99".to_owned()];
        assert_eq!(about(&[failing], &kernels), [" failing", "kernels 6.99"]);
    }
}
