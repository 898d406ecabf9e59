// SPDX-License-Identifier: GPL-3.0-or-later
//! The dialog that asks for the password.

use anyhow::{Result, bail};

use super::keys::KEY_RETURN;
use super::{Desktop, LIMIT, Part};
use tandem_stage::node::{Seen, State};

impl Desktop {
    /// Waits until the authentication dialog asks for the password.
    async fn password_field(&self, ready: impl Fn(&Seen) -> bool) -> Result<Seen> {
        let field = self
            .until(Part::Authentication, "*", LIMIT, |seen| {
                seen.role == "password text" && ready(seen)
            })
            .await?;
        self.step("the authentication dialog asks for the password");
        Ok(field)
    }

    /// Types the password into the authentication dialog key by key, and confirms.
    pub async fn type_password(&self, password: &str) -> Result<()> {
        self.password_field(|seen| seen.is(State::Focused)).await?;
        for letter in password.bytes() {
            // The symbols of ASCII are its codes.
            self.key(letter.into()).await?;
        }
        self.key(KEY_RETURN).await
    }

    /// Puts the password into the authentication dialog that says `message`, and confirms.
    pub async fn authenticate(&self, message: &str, password: &str, shot: &str) -> Result<()> {
        self.until(Part::Authentication, message, LIMIT, |_| true)
            .await?;
        let field = self.password_field(|_| true).await?;
        self.shot(shot)?;
        let text = password;
        let role = "password field";
        let reply = field
            .node
            .call(
                &self.bus,
                "org.a11y.atspi.EditableText",
                "SetTextContents",
                &text,
            )
            .await?;
        let accepted: bool = reply.body().deserialize()?;
        if !accepted {
            bail!("the {role} takes no text");
        }
        // The dialog uses GTK 3, which activates a text field as Return does.
        if !field.node.act(&self.bus).await? {
            self.key(KEY_RETURN).await?;
        }
        Ok(())
    }
}
