// SPDX-License-Identifier: GPL-3.0-or-later
//! The kernel's module, and the key that it is signed with.

use async_trait::async_trait;
use tandem_api::{Failure, Kind, ModuleProblem, ModuleState, SigningKey};

/// Whether a kernel can run a cache, and what would help.
#[async_trait]
pub trait Module: Send + Sync + 'static {
    /// Release of the running kernel.
    fn kernel(&self) -> String;

    /// Whether the kernel can run a cache.
    async fn module_state(&self) -> ModuleState;

    /// Whether the kernel has dm-cache.
    fn has_dm_cache(&self) -> bool {
        true
    }

    /// Why the kernel cannot run a cache.
    async fn module_problem(&self) -> (ModuleProblem, String) {
        (ModuleProblem::None, String::new())
    }

    /// State of the key that DKMS signs modules with.
    async fn signing_key(&self) -> SigningKey {
        SigningKey::NotNeeded
    }

    /// Has the firmware ask whether to trust that key.
    async fn enroll_key(&self, _password: &str) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Releases of the kernels that may start next and have no module.
    async fn kernels_without_module(&self) -> Vec<String> {
        Vec::new()
    }
}
