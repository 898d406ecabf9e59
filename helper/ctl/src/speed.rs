// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl speed-test`: follows a test, and prints its result.

use crate::{Ending, say, words};
use futures_util::{FutureExt, StreamExt, select};
use std::time::{Duration, Instant};
use tandem_api::{ManagerProxy, SpeedTest, TimedReads, Trust};

/// Time between two lines about the progress.
const NEWS: Duration = Duration::from_secs(5);

/// Makes the call `test`, shows the progress, and prints the result. The service ends the test if this program ends.
pub async fn show(
    manager: &ManagerProxy<'_>,
    test: impl Future<Output = zbus::Result<SpeedTest>>,
    json: bool,
) -> Result<(), Ending> {
    let mut told = manager.receive_speed_test_progressed().await?.fuse();
    let test = test.fuse();
    futures_util::pin_mut!(test);
    let mut said: Option<(bool, Instant)> = None;
    let result = loop {
        select! {
            result = test => break result?,
            signal = told.next() => {
                let Some(signal) = signal else { continue };
                let progress = signal.args()?;
                let new = said.is_none_or(|(through_cache, at)| {
                    through_cache != progress.through_cache || at.elapsed() >= NEWS
                });
                if new && !json {
                    say(format_args!(
                        "{:.0} %: reading {}",
                        progress.done * 100.0,
                        if progress.through_cache { "through the cache" } else { "from the disk" }
                    ));
                    said = Some((progress.through_cache, Instant::now()));
                }
            }
        }
    };
    print(&result, json);
    Ok(())
}

/// Prints the last result of a cache.
pub fn show_last(result: &SpeedTest, json: bool) -> Result<(), Ending> {
    if result.is_none() {
        let text = "this cache was not tested yet; see “tandemctl speed-test”";
        return Err(Ending::Usage(text.to_owned()));
    }
    print(result, json);
    if !json {
        let age = crate::unix_seconds().saturating_sub(result.time);
        say(format_args!("Tested {} ago.", words::duration(age)));
    }
    Ok(())
}

fn print(result: &SpeedTest, json: bool) {
    if json {
        say(serde_json::json!({ "speed_test": result }));
    } else {
        lines(result).iter().for_each(say);
    }
}

/// The result in words.
fn lines(result: &SpeedTest) -> Vec<String> {
    let mut lines = vec![format!("Disk: {}", words::device(&result.disk))];
    if !result.ssd.is_none() {
        lines.push(format!("SSD:  {}", words::device(&result.ssd)));
    }
    let parts = [
        ("Opening many small files", &result.random, true),
        ("Reading large files", &result.sequential, false),
    ];
    for (what, reads, small) in parts {
        let speed = |us: u64| match small {
            true => format!(
                "{} reads a second, {:.2} ms each",
                reads.count.saturating_mul(1_000_000) / us.max(1),
                reads.us_per_read(us) as f64 / 1_000.0
            ),
            false => format!("{}/s", words::bytes(reads.bytes_per_second(us))),
        };
        let Some(factor) = reads.factor() else {
            lines.push(format!("{what}: {}", speed(reads.disk_us)));
            continue;
        };
        let told = match reads.is_served_by_ssd() {
            true => faster(factor),
            false => "not served by the SSD".to_owned(),
        };
        lines.push(format!("{what}: {told}"));
        lines.push(format!("  From the disk:     {}", speed(reads.disk_us)));
        lines.push(format!(
            "  Through the cache: {} ({} from the SSD)",
            speed(reads.cache_us),
            from_ssd(reads)
        ));
    }
    match result.trust {
        Trust::Reliable => {}
        Trust::Disturbed => lines.push(format!(
            "Note: not reliable, because other programs did {} % of what the devices did. Close them and test again.",
            result.others_permille.div_ceil(10)
        )),
        Trust::Unknown => lines.push(
            "Note: the kernel does not tell whether other programs used the disk meanwhile.".to_owned(),
        ),
    }
    lines
}

fn from_ssd(reads: &TimedReads) -> String {
    match reads.ssd_permille {
        1000 => "all".to_owned(),
        permille => format!("{} %", permille / 10),
    }
}

fn faster(factor: f64) -> String {
    match factor {
        0.0..0.95 => format!("{:.1} times slower", 1.0 / factor.max(0.001)),
        0.95..1.05 => "no faster".to_owned(),
        1.05..9.95 => format!("{factor:.1} times faster"),
        _ => format!("{factor:.0} times faster"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> SpeedTest {
        let reads = |bytes, count, disk_us, cache_us, ssd_permille| TimedReads {
            bytes,
            count,
            disk_us,
            cache_us,
            ssd_permille,
        };
        SpeedTest {
            time: 1,
            random: reads(4096, 500, 6_000_000, 50_000, 1000),
            sequential: reads(1 << 20, 100, 700_000, 350_000, 994),
            trust: Trust::Reliable,
            ..SpeedTest::none()
        }
    }

    #[test]
    fn a_result_has_both_speeds_and_the_share_of_the_ssd() {
        let lines = lines(&result());
        assert_eq!(lines[1], "Opening many small files: 120 times faster");
        assert!(lines[2].ends_with("83 reads a second, 12.00 ms each"));
        assert!(lines[3].ends_with("10000 reads a second, 0.10 ms each (all from the SSD)"));
        assert_eq!(lines[4], "Reading large files: 2.0 times faster");
        assert!(
            lines[6].ends_with("299.6 MB/s (99 % from the SSD)"),
            "{}",
            lines[6]
        );
        assert_eq!(lines.len(), 7);
    }

    /// A damaged file of results may hold anything.
    #[test]
    fn a_time_of_the_disks_own_memory_is_no_speed_of_the_ssd_and_no_time_is_no_fault() {
        let mut result = result();
        result.random.ssd_permille = 499;
        result.random.disk_us = 0;
        let lines = lines(&result);
        assert_eq!(lines[1], "Opening many small files: not served by the SSD");
    }

    #[test]
    fn an_unreliable_result_says_so_and_no_speed_up_is_claimed_without_one() {
        let mut result = result();
        (result.trust, result.others_permille) = (Trust::Disturbed, 231);
        let last = lines(&result).pop().unwrap();
        assert!(
            last.starts_with("Note: not reliable") && last.contains("24 %"),
            "{last}"
        );
        assert_eq!(faster(1.04), "no faster");
        assert_eq!(faster(0.5), "2.0 times slower");
        result.random.cache_us = 0;
        assert_eq!(
            lines(&result)[1],
            "Opening many small files: 83 reads a second, 12.00 ms each"
        );
    }
}
