// SPDX-License-Identifier: GPL-3.0-or-later
//! The module of the simulated kernel.

use super::Simulated;
use super::world::Scene;
use async_trait::async_trait;
use tandem_api::{Failure, Kind, ModuleProblem, ModuleState, SigningKey};
use tandem_helper::host::traits::Module;

/// Release of the running kernel.
const KERNEL: &str = "6.1.0-simulated";

#[async_trait]
impl Module for Simulated {
    fn kernel(&self) -> String {
        KERNEL.to_owned()
    }

    async fn module_state(&self) -> ModuleState {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.module)
    }

    async fn module_problem(&self) -> (ModuleProblem, String) {
        let _question = self.world.questions.ask().await;
        let (state, problem) = self.world.read(|scene| (scene.module, scene.problem));
        let usual = match state {
            ModuleState::Loaded | ModuleState::Available => (ModuleProblem::None, String::new()),
            ModuleState::NotBuilt => {
                let log = "linux/map.c:7:1: error: unknown type name 'simulated'";
                (ModuleProblem::BuildFailed, log.to_owned())
            }
            ModuleState::Refused => (ModuleProblem::NotSigned, String::new()),
        };
        problem.map_or(usual, |problem| (problem, String::new()))
    }

    async fn signing_key(&self) -> SigningKey {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.key)
    }

    async fn enroll_key(&self, _password: &str) -> Result<(), Failure> {
        let _question = self.world.questions.ask().await;
        self.world.read_mut(|scene| scene.key = SigningKey::Pending);
        Ok(())
    }

    async fn kernels_without_module(&self) -> Vec<String> {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.kernels.clone())
    }
}

pub fn load_module(scene: &mut Scene) -> Result<(), Failure> {
    match scene.module {
        ModuleState::NotBuilt => Err(Failure::new(Kind::ModuleNotBuilt).name(KERNEL)),
        ModuleState::Refused => Err(Failure::new(Kind::ModuleRefused).name(KERNEL)),
        ModuleState::Available | ModuleState::Loaded => {
            scene.module = ModuleState::Loaded;
            Ok(())
        }
    }
}
