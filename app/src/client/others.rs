// SPDX-License-Identifier: GPL-3.0-or-later
//! The calls for caches of other systems.

use tandem_api::{Failure, OtherPeriod, PlanReply};

use super::Client;

impl Client {
    /// Asks what a cache of another system did in the last hour.
    ///
    /// # Errors
    /// There is no such cache, or the service does not answer.
    pub async fn other_history(&self, id: &str) -> Result<Vec<OtherPeriod>, Failure> {
        Ok(self.manager().await?.other_history(id).await?)
    }

    /// Asks what the removal of a cache of another system would do. Changes nothing.
    ///
    /// # Errors
    /// Why the cache cannot be removed.
    pub async fn plan_remove_other(&self, id: &str) -> Result<PlanReply, Failure> {
        Ok(self.manager().await?.plan_remove_other(id).await?)
    }

    /// Executes that plan. Waits while the user authenticates. The job shows the rest.
    ///
    /// # Errors
    /// Why the job was not begun.
    pub async fn remove_other(&self, plan: &PlanReply) -> Result<(), Failure> {
        let manager = self.manager().await?;
        manager.remove_other(&plan.plan_id, &plan.digest).await?;
        Ok(())
    }

    /// Has a cache of another system write everything back. Waits while the user authenticates. The job shows the rest.
    ///
    /// # Errors
    /// Why the job was not begun.
    pub async fn write_back_other(&self, id: &str) -> Result<(), Failure> {
        self.manager().await?.write_back_other(id).await?;
        Ok(())
    }
}
