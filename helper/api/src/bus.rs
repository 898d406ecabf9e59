// SPDX-License-Identifier: GPL-3.0-or-later
//! How a failure and a sample travel on the bus, beyond the form of their fields.

use crate::{ERROR_PREFIX, Failure, Kind, Sample, Sampled};
use zbus::message::Header;
use zbus::names::ErrorName;
use zbus::{DBusError, Message};

impl Failure {
    /// The failure that the service sent in answer to a call. `None` for an error of the transport or of another
    /// service.
    pub fn from_zbus(error: &zbus::Error) -> Option<Self> {
        let zbus::Error::MethodError(name, _, message) = error else {
            return None;
        };
        name.as_str().strip_prefix(ERROR_PREFIX)?;
        message
            .body()
            .deserialize::<(String, Self)>()
            .ok()
            .map(|(_, failure)| failure)
    }
}

impl From<zbus::Error> for Failure {
    /// The failure that the service sent, or a failure that says that the service cannot be reached.
    fn from(error: zbus::Error) -> Self {
        Self::from_zbus(&error).unwrap_or_else(|| {
            Self::new(Kind::ServiceUnavailable)
                .name("tandem")
                .detail(&error)
        })
    }
}

impl DBusError for Failure {
    fn create_reply(&self, call: &Header<'_>) -> zbus::Result<Message> {
        Message::error(call, self.name()).build(&(self.to_string(), self))
    }

    fn name(&self) -> ErrorName<'_> {
        ErrorName::from_string_unchecked(self.kind.error_name())
    }

    fn description(&self) -> Option<&str> {
        Some(&self.detail)
    }
}

impl Sample {
    /// The object path and the sample, if the message is the signal [`Sampled`] of a cache.
    #[must_use]
    pub fn told_by(message: &Message) -> Option<(String, Self)> {
        let signal = Sampled::from_message(message.clone())?;
        let sample = signal.args().ok()?.sample;
        Some((message.header().path()?.to_string(), sample))
    }
}

/// All objects of a service on the bus with their properties. `root`: path of the service's object manager.
///
/// # Errors
/// If the service does not answer.
pub async fn managed_objects(
    connection: &zbus::Connection,
    service: &'static str,
    root: &'static str,
) -> zbus::Result<zbus::fdo::ManagedObjects> {
    let manager = zbus::fdo::ObjectManagerProxy::builder(connection)
        .destination(service)
        .path(root)
        .build()
        .await?;
    Ok(manager.get_managed_objects().await?)
}
