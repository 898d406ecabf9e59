// SPDX-License-Identifier: GPL-3.0-or-later
//! Bounds the calls that an object answers at a time.
//!
//! By itself zbus starts a task for each call at once, and each task keeps its reply until the bus reads the reply. So
//! a flood of calls takes memory without a limit. Here only an admitted call gets a task. A refusal is written before
//! the next call is read, so that the flood waits in the bus, which has limits of its own.

use crate::service::queue::Queues;
use async_trait::async_trait;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Deref;
use std::sync::Arc;
use zbus::message::{Header, Message};
use zbus::names::{InterfaceName, MemberName};
use zbus::object_server::{DispatchResult, Interface, SignalEmitter};
use zbus::{BoxDBusError, Connection, ObjectServer, OwnedVariant, Variant, fdo};

/// An object without properties that can be set, and with bounded calls.
pub struct Bounded<T> {
    object: Arc<T>,
    queues: Arc<Queues>,
}

impl<T> Bounded<T> {
    /// The object, with the queues by which its calls are admitted.
    pub(crate) fn new(object: T, queues: Arc<Queues>) -> Self {
        Self {
            object: Arc::new(object),
            queues,
        }
    }
}

impl<T> Deref for Bounded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// Answers a call that was admitted.
async fn answer<T: Interface>(object: &T, connection: &Connection, message: &Message) {
    let (header, server) = (message.header(), connection.object_server());
    let unknown = || BoxDBusError::from(fdo::Error::UnknownMethod("no such method".to_owned()));
    let answered = match header.member().cloned() {
        Some(name) => match object.call(server, connection, message, name) {
            DispatchResult::Async(answered) => answered.await,
            DispatchResult::NotFound | DispatchResult::RequiresMut => Err(unknown()),
        },
        None => Err(unknown()),
    };
    if let Err(e) = answered
        && let Err(e) = connection.reply_dbus_error(&header, e).await
    {
        tracing::debug!("cannot answer a call: {e}");
    }
}

#[async_trait]
impl<T: Interface> Interface for Bounded<T> {
    fn name() -> InterfaceName<'static> {
        T::name()
    }

    fn spawn_tasks_for_methods(&self) -> bool {
        false
    }

    fn call<'call>(
        &'call self,
        _server: &'call ObjectServer,
        connection: &'call Connection,
        message: &'call Message,
        _name: MemberName<'call>,
    ) -> DispatchResult<'call> {
        let header = message.header();
        let sender = header.sender().map(|name| name.as_str());
        let admitted = match self.queues.admit(sender.unwrap_or_default()) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                let refused = async move { Err::<(), _>(refusal) };
                return DispatchResult::new_async(connection, message, refused);
            }
        };
        let (object, connection) = (self.object.clone(), connection.clone());
        let message = message.clone();
        tokio::spawn(async move {
            answer(&*object, &connection, &message).await;
            drop(admitted);
        });
        DispatchResult::Async(Box::pin(std::future::ready(Ok(()))))
    }

    fn call_mut<'call>(
        &'call mut self,
        _server: &'call ObjectServer,
        _connection: &'call Connection,
        _message: &'call Message,
        _name: MemberName<'call>,
    ) -> DispatchResult<'call> {
        DispatchResult::NotFound
    }

    async fn get(
        &self,
        property: &str,
        server: &ObjectServer,
        connection: &Connection,
        header: Option<&Header<'_>>,
        emitter: &SignalEmitter<'_>,
    ) -> Option<Result<OwnedVariant, BoxDBusError>> {
        let object = &self.object;
        object
            .get(property, server, connection, header, emitter)
            .await
    }

    async fn get_all(
        &self,
        server: &ObjectServer,
        connection: &Connection,
        header: Option<&Header<'_>>,
        emitter: &SignalEmitter<'_>,
    ) -> fdo::Result<HashMap<String, OwnedVariant>> {
        let object = &self.object;
        object.get_all(server, connection, header, emitter).await
    }

    fn set<'call>(
        &'call self,
        property: &'call str,
        value: &'call Variant<'_>,
        server: &'call ObjectServer,
        connection: &'call Connection,
        header: Option<&'call Header<'_>>,
        emitter: &'call SignalEmitter<'_>,
    ) -> DispatchResult<'call> {
        let object = &self.object;
        object.set(property, value, server, connection, header, emitter)
    }

    async fn set_mut(
        &mut self,
        _property: &str,
        _value: &Variant<'_>,
        _server: &ObjectServer,
        _connection: &Connection,
        _header: Option<&Header<'_>>,
        _emitter: &SignalEmitter<'_>,
    ) -> Option<Result<(), BoxDBusError>> {
        None
    }

    fn introspect_to_writer(&self, writer: &mut dyn Write, level: usize) {
        self.object.introspect_to_writer(writer, level);
    }
}
