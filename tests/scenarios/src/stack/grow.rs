// SPDX-License-Identifier: GPL-3.0-or-later
//! A logical volume grows: as the disk below a cache, and as the SSD of one.

use anyhow::{Result, bail, ensure};

use super::Stack;
use tandem_harness::layer::Run;

/// Script that lets the volume grow below its cache, and the file system on both. The script prints the length of the
/// volume and that of the file system, both in KiB.
const GROW: &str = "lvextend -q --extents +100%FREE music/songs
size=$(blockdev --getsize64 /dev/music/songs)
for try in $(seq 300); do [ $(blockdev --getsize64 MAPPING) = $size ] && break; sleep 0.1; done
resize2fs MAPPING && echo $((size / 1024)) $(df --output=size -k /srv/songs | tail -1)";

/// Script that lets the logical volume grow that is the SSD of a cache, and prints how many sectors the volume has and the
/// cache uses, and how many slots are in use.
const GROW_SSD: &str = r#"lvextend -q --extents +100%FREE fast/front >&2
size=$(blockdev --getsz /dev/fast/front)
uses() { dmsetup status MAPPING | awk '{ for (i = 1; i < NF; i++) if ($i == "ssd_sectors") print $(i + 1) }'; }
for try in $(seq 300); do [ "$(uses)" = "$size" ] && break; sleep 0.1; done
echo "$size $(uses) $(dmsetup status MAPPING | awk '{ print $8 }')""#;

impl Stack {
    pub(super) fn grow(&mut self, run: &Run) -> Result<()> {
        let mapping = self.below("songs")?;
        let told = self.sh(&GROW.replace("MAPPING", &mapping))?;
        run.note(&told);
        let sizes = told.lines().last().unwrap_or_default();
        let sizes = sizes.split_whitespace().map(str::parse::<u64>);
        let sizes: Vec<u64> = sizes.collect::<Result<_, _>>()?;
        ensure!(
            matches!(sizes[..], [volume, files] if files > volume * 3 / 4),
            "the file system has not grown with the volume: {sizes:?} KiB"
        );
        // Beyond the old end, and on the SSD only when the machine goes off.
        let large = "cd /srv/songs && dd if=/dev/urandom of=large bs=1M count=32 conv=fsync status=none && cksum large";
        self.large = self.sh(large)?;
        self.all_there()
    }

    /// A part of what is cached stays, and the cache goes on in write-back.
    pub(super) fn ssd_grows(&mut self, run: &Run) -> Result<()> {
        let mapping = self.below("photos")?;
        let name = mapping.trim_start_matches("/dev/mapper/");
        self.sh(&format!("tandemctl flush {name}"))?;
        let told = self.sh(&GROW_SSD.replace("MAPPING", &mapping))?;
        run.note(&told);
        let last = told.lines().last().unwrap_or_default();
        let words: Vec<_> = last.split_whitespace().collect();
        let [size, uses, slots] = words[..] else {
            bail!("another form: {told}");
        };
        ensure!(size == uses, "the cache does not use all of it: {told}");
        let used = slots.split('/').next().unwrap_or_default();
        ensure!(used.parse::<u64>()? > 0, "nothing stays cached: {told}");
        self.vm()?.drop_page_cache()?;
        let sum = self.sh("cd /srv/photos && cksum new")?;
        let written = &self.written[0].1;
        ensure!(sum == *written, "{sum} in place of {written}");
        Ok(())
    }
}
