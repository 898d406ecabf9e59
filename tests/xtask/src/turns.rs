// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers that take turns: a run of all layers without `--all` takes one layer of each group. The next run takes another.

use anyhow::Result;

use crate::seed;

/// Groups of layers that look at one thing in several ways. Each group's layers have many tests in common, or look at rare
/// machines. Every case of the functional suite also runs in the plain kernel, and Debian's oldest kernel is in each run.
const GROUPS: [&[&str]; 5] = [
    &["vm-system", "vm-dracut"],
    &["vm-kill", "vm-cut"],
    &["vm-ports", "vm-stack", "vm-advice"],
    &["uml-kasan", "uml-lockdep"],
    &["kernel-6.12-backports", "kernel-7.2-debian13"],
];

/// The layer that runs instead of this one in this run; `None` if the layer itself has its turn.
///
/// # Errors
/// The seed in the environment is no number.
pub fn instead_of(layer: &str) -> Result<Option<&'static str>> {
    let mut groups = GROUPS.iter().enumerate();
    let Some((place, group)) = groups.find(|(_, group)| group.contains(&layer)) else {
        return Ok(None);
    };
    let taken = taken(place, group, seed::of_this_run()?);
    Ok((taken != layer).then_some(taken))
}

/// The layer of a group that has its turn. Groups of one size use different bits of the seed, so that all combinations occur.
fn taken(place: usize, group: &[&'static str], seed: u64) -> &'static str {
    let turn = (seed >> (6 * place)) as usize % group.len();
    group[turn]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{GROUPS, taken};
    use crate::test::layers;

    #[test]
    fn every_layer_of_a_group_exists_and_has_its_turn_with_each_other_layer() {
        let names: BTreeSet<_> = layers().iter().map(|layer| layer.name).collect();
        let groups: Vec<_> = GROUPS.iter().enumerate().collect();
        for (place, group) in &groups {
            assert!(group.iter().all(|layer| names.contains(layer)), "{group:?}");
            for (other, with) in groups.iter().filter(|(other, _)| other != place) {
                let seeds = (0..1 << 32_u64).step_by(1_000_003);
                let seen: BTreeSet<_> = seeds
                    .map(|seed| (taken(*place, group, seed), taken(*other, with, seed)))
                    .collect();
                assert_eq!(seen.len(), group.len() * with.len());
            }
        }
    }
}
