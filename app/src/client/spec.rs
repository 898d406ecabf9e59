// SPDX-License-Identifier: GPL-3.0-or-later
//! The questions for a plan, from what was chosen.

use tandem_api::{Mode, PlanSpec};

use super::path;
use crate::model::draft::Draft;

/// The question for a plan of what was chosen, with the consent to erase where the first page told of it;
/// `None` while disk or SSD are not chosen.
#[must_use]
pub fn draft_spec(draft: &Draft) -> Option<PlanSpec> {
    let memory = draft.memory_bytes();
    let (ssd, partition_bytes) = match memory {
        Some(_) => ("/".to_owned(), 0),
        None => draft.ssd_part()?,
    };
    let mut spec = whole_spec(draft.origin.as_deref()?, &ssd)?;
    spec.mode = draft.planned_mode();
    spec.erase_ssd = draft.erases;
    spec.at_next_start = draft.at_next_start && memory.is_none();
    spec.partition_bytes = partition_bytes;
    spec.target = draft.target;
    spec.memory_bytes = memory.unwrap_or(0);
    Some(spec)
}

/// The question whether an SSD as a whole can become a cache now, without erasing anything.
#[must_use]
pub fn whole_spec(origin: &str, ssd: &str) -> Option<PlanSpec> {
    Some(PlanSpec {
        origin: path(origin).ok()?,
        ssd: path(ssd).ok()?,
        mode: Mode::Writethrough,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes: 0,
        target: tandem_api::Target::Tandem,
        memory_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::draft::{MEMORY, ssd_key};

    #[test]
    fn a_plan_may_erase_only_what_the_first_page_said() {
        for erases in [false, true] {
            let mut draft = Draft::default();
            draft.choose_origin(Some("/b/sda1".to_owned()));
            draft.choose_ssd(Some("/b/sdc".to_owned()));
            draft.erases = erases;
            assert_eq!(draft_spec(&draft).map(|spec| spec.erase_ssd), Some(erases));
            // The consent is for one SSD.
            draft.choose_ssd(Some("/b/sdd".to_owned()));
            assert_eq!(draft_spec(&draft).map(|spec| spec.erase_ssd), Some(false));
        }
    }

    #[test]
    fn memory_is_asked_for_without_an_ssd_and_never_for_the_next_start() {
        let mut draft = Draft::default();
        draft.choose_origin(Some("/b/sda1".to_owned()));
        draft.at_next_start = true;
        draft.choose_ssd(Some(ssd_key(MEMORY, 4 << 30)));
        let spec = draft_spec(&draft).unwrap();
        assert_eq!(spec.ssd.as_str(), "/");
        assert_eq!((spec.memory_bytes, spec.partition_bytes), (4 << 30, 0));
        assert!(!spec.at_next_start && !spec.erase_ssd);
    }
}
