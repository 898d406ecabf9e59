// SPDX-License-Identifier: GPL-3.0-or-later
//! A search object by object, for programs that do not return all their objects in one call.

use anyhow::Result;
use futures_util::future::try_join;
use zbus::Connection;

use tandem_stage::node::{Node, Seen, Within};

/// A search through one window at a time.
pub struct Search<'a> {
    /// The accessibility bus.
    pub bus: &'a Connection,
    /// Whether a name matches.
    pub named: &'a dyn Fn(&str) -> bool,
    /// Whether the details match; called only for objects with a matching name.
    pub fits: &'a mut dyn FnMut(&Seen) -> bool,
}

impl Search<'_> {
    /// Searches an object and the objects below it.
    pub async fn below(&mut self, node: &Node, depth: usize) -> Result<Option<Seen>> {
        let (name, children) = node.name_and_children(self.bus).await?;
        if (self.named)(&name) {
            let (states, role) = try_join(node.states(self.bus), node.role(self.bus)).await?;
            let seen = Seen {
                node: node.clone(),
                depth,
                name,
                role,
                states,
                place: node
                    .place(self.bus, Within::Window)
                    .await
                    .unwrap_or_default(),
                window: String::new(),
            };
            if (self.fits)(&seen) {
                return Ok(Some(seen));
            }
        }
        if children > 0 {
            for child in node.children(self.bus).await? {
                // An object that goes away meanwhile is not on the screen.
                if let Ok(Some(seen)) = Box::pin(self.below(&child, depth + 1)).await {
                    return Ok(Some(seen));
                }
            }
        }
        Ok(None)
    }
}
