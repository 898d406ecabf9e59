// SPDX-License-Identifier: GPL-3.0-or-later
//! Removes a cache of dm-cache that LVM has not made.

use crate::kinds::mapping::Bare;

/// The superblock is at the beginning of the metadata device.
pub(in crate::kinds) const BARE: Bare = Bare {
    target: "cache",
    cleaner: Some(cleaner),
    message: None,
    superblock: |words| Some(((*words.first()?).to_owned(), 0)),
    // The kernel writes the number in octal: 06142003.
    mark: (32, 0o6_142_003_u32.to_le_bytes()),
};

/// The policy that writes everything back, in write-through: in write-back it keeps new writes all the same.
fn cleaner(line: &str) -> Option<String> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let (devices, rest) = words.split_at_checked(4)?;
    let (count, rest) = rest.split_first()?;
    let features = rest.get(..count.parse().ok()?)?;
    let is_mode = |word: &&str| ["writethrough", "writeback", "passthrough"].contains(word);
    let mut kept: Vec<_> = features
        .iter()
        .copied()
        .filter(|word| !is_mode(word))
        .collect();
    kept.push("writethrough");
    let count = kept.len().to_string();
    let all = [devices, &[count.as_str()], &kept, &["cleaner", "0"]].concat();
    Some(all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cleaner_keeps_the_format_of_the_metadata_and_leaves_the_mode() {
        let of = |line: &str| cleaner(line).unwrap();
        assert_eq!(
            of("253:1 253:0 8:16 128 1 writeback smq 0"),
            "253:1 253:0 8:16 128 1 writethrough cleaner 0"
        );
        assert_eq!(
            of(
                "253:1 253:0 8:16 128 3 metadata2 writethrough no_discard_passdown mq 2 random_threshold 0"
            ),
            "253:1 253:0 8:16 128 3 metadata2 no_discard_passdown writethrough cleaner 0"
        );
        assert_eq!(
            of("253:1 253:0 8:16 128 0 default 0"),
            "253:1 253:0 8:16 128 1 writethrough cleaner 0"
        );
        for line in [
            "",
            "253:1 253:0 8:16",
            "253:1 253:0 8:16 128",
            "a b c d 9 x",
            "a b c d -1",
        ] {
            assert_eq!(cleaner(line), None, "{line}");
        }
    }
}
