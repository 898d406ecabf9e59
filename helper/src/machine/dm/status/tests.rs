// SPDX-License-Identifier: GPL-3.0-or-later
//! Lines as the module prints them.

use super::*;

const LINE: &str = "active - writethrough 32 7/4096 0 14 fills 3 read_bypassed_busy 8 \
                    read_bypassed_sequential 16 read_hit 64 read_missed 32 read_requested 120 write_hit 5";

#[test]
fn printing_and_parsing_are_inverse() {
    let line: StatusLine = LINE.parse().unwrap();
    assert_eq!(line.to_string(), LINE);
    assert_eq!(line.to_string().parse(), Ok(line));
}

#[test]
fn counters_go_where_they_belong() {
    let sample = LINE.parse::<StatusLine>().unwrap().sample(9);
    assert_eq!(
        (sample.time_us, sample.frames_used, sample.frames_total),
        (9, 7, 4096)
    );
    let read = &sample.read;
    assert_eq!(
        (
            read.requested,
            read.hit,
            read.missed,
            read.bypassed_sectors()
        ),
        (120, 64, 32, 24)
    );
    assert_eq!(
        read.requested,
        read.hit + read.missed + read.bypassed_sectors()
    );
    assert_eq!(sample.write.hit, 5);
    assert_eq!(
        sample.events,
        [Counter {
            name: "fills".into(),
            value: 3
        }]
    );
}

#[test]
fn the_state_is_said_in_the_words_of_the_contract() {
    let said = |state: &str| {
        let line = format!("{state} writeback 32 7/4096 640 0");
        let line: StatusLine = line.parse().unwrap();
        let (state, reason) = line.contract_state();
        (state.to_owned(), reason.to_owned())
    };
    for (kernel, state, reason) in [
        ("active -", "active", ""),
        ("flushing -", "active", ""),
        ("paused -", "active", ""),
        ("bypass ssd-error", "bypass", "ssd-error"),
        ("stranded ssd-error-dirty", "bypass", "ssd-gone-dirty"),
        ("suspended -", "suspended", ""),
        ("suspended ssd-error-dirty", "suspended", "ssd-gone-dirty"),
    ] {
        assert_eq!(said(kernel), (state.to_owned(), reason.to_owned()));
        assert!(state.parse::<tandem_api::CacheState>().is_ok());
    }
}

/// What the module counts and status prints, by the names that core gives it, each with another value.
fn line_of_core() -> (String, Vec<String>) {
    let mut names = tandem_sim::engine::Core::linked().counter_names();
    names.truncate(names.iter().position(|name| name == "checkpoints").unwrap() + 1);
    names.extend(
        [
            "journal_used",
            "journal_total",
            "drain_seconds",
            "marked",
            "dirty_limit",
            "retired",
            "cold_start",
        ]
        .map(str::to_owned),
    );
    let mut line = format!("flushing - writeback 32 381/896 640 {}", names.len() * 2);
    for (value, name) in names.iter().enumerate() {
        line += &format!(" {name} {}", 1000 + value);
    }
    (line, names)
}

#[test]
fn every_counter_of_core_goes_where_it_is_looked_for() {
    let (line, names) = line_of_core();
    let value = |name: &str| 1000 + names.iter().position(|n| n == name).unwrap() as u64;
    let sample = line.parse::<StatusLine>().unwrap().sample(0);
    let (read, write) = (&sample.read, &sample.write);
    for (found, name) in [
        (read.requested, "read_requested"),
        (read.hit, "read_hit"),
        (read.missed, "read_missed"),
        (write.requested, "write_requested"),
        (write.hit, "write_hit"),
        (write.missed, "write_missed"),
        (sample.write_back_sectors, "write_back"),
        (sample.drained_sectors, "drained"),
        (sample.drain_seconds, "drain_seconds"),
        (sample.journal_used, "journal_used"),
        (sample.journal_total, "journal_total"),
    ] {
        assert_eq!(found, value(name), "{name}");
    }
    for (direction, counters) in [("read", &read.bypassed), ("write", &write.bypassed)] {
        let wanted = names
            .iter()
            .filter(|name| name.starts_with(&format!("{direction}_bypassed_")));
        assert_eq!(counters.len(), wanted.count());
        for counter in counters.iter() {
            assert_eq!(
                counter.value,
                value(&format!("{direction}_bypassed_{}", counter.name))
            );
        }
    }
    // What the app, tandemctl and the service ask for by name.
    for name in [
        "fills",
        "evictions",
        "flushes_disk",
        "flushes_ssd",
        "ssd_errors",
        "disk_errors",
        "dirty_limit",
        "retired",
        "cold_start",
    ] {
        assert_eq!(sample.event(name), value(name), "{name}");
    }
    assert!(
        sample
            .events
            .iter()
            .all(|event| !event.name.starts_with("read_") && !event.name.starts_with("write_"))
    );
}

#[test]
fn a_line_of_a_real_machine_is_understood() {
    let line = "active - writethrough 32 69/7936 0 78 read_requested 2088 read_hit 424 read_missed 1632 \
                read_bypassed_sequential 0 read_bypassed_busy 32 read_bypassed_full 0 \
                read_bypassed_memory 0 read_bypassed_unaligned 0 read_bypassed_failed 0 \
                write_requested 0 write_hit 0 write_back 0 write_missed 0 write_bypassed_memory 0 \
                write_bypassed_failed 0 write_bypassed_discard 0 write_bypassed_mode 0 drained 0 \
                fills 69 evictions 0 invalidated 0 cancelled 0 streams 0 waits 0 drains 0 \
                flushes_disk 0 flushes_ssd 0 ssd_errors 0 disk_errors 0 sweeps 0 groups 0 marks_set 0 \
                marks_cleared 0 checkpoints 0 journal_used 0 journal_total 128 drain_seconds 0 \
                marked 0 dirty_limit 190464";
    let line: StatusLine = line.parse().unwrap();
    assert_eq!(
        (line.contract_state(), line.is_complete()),
        (("active", ""), true)
    );
    let sample = line.sample(0);
    let read = &sample.read;
    assert_eq!(
        read.requested,
        read.hit + read.missed + read.bypassed_sectors()
    );
    assert_eq!((sample.journal_total, sample.event("fills")), (128, 69));
    assert_eq!(sample.event("dirty_limit"), 190_464);
}

#[test]
fn an_error_of_the_disk_is_told_and_a_worse_one_of_the_ssd_before_it() {
    let said = |state: &str, errors: u64| {
        let line = format!("{state} writeback 32 7/4096 640 2 disk_errors {errors}");
        line.parse::<StatusLine>()
            .unwrap()
            .contract_state()
            .1
            .to_owned()
    };
    for state in ["active -", "flushing -", "paused -"] {
        assert_eq!(
            (said(state, 0), said(state, 1)),
            (String::new(), "disk-error".into())
        );
    }
    assert_eq!(said("stranded ssd-error-dirty", 1), "ssd-gone-dirty");
}

#[test]
fn a_table_that_is_being_replaced_tells_nothing() {
    let line: StatusLine = "suspended - writeback 32 0/0 0 0".parse().unwrap();
    assert!(!line.is_complete());
}

#[test]
fn what_write_back_counts_has_places_of_its_own() {
    let line = "bypass ssd-gone-dirty writeback 32 7/4096 640 16 commits 2 drain_seconds 9 drained 128 \
                journal_total 64 journal_used 3 marks 5 write_back 768 write_hit 768";
    let line: StatusLine = line.parse().unwrap();
    assert_eq!((line.mode, line.dirty), (Mode::Writeback, 640));
    let sample = line.sample(0);
    assert_eq!((sample.dirty_sectors, sample.drain_seconds), (640, 9));
    assert_eq!(
        (sample.drained_sectors, sample.write_back_sectors),
        (128, 768)
    );
    assert_eq!((sample.journal_used, sample.journal_total), (3, 64));
    // Served sectors are a part of the hits, and not a reason to bypass the cache.
    assert_eq!((sample.write.hit, sample.write.bypassed.len()), (768, 0));
    let names: Vec<_> = sample.events.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["commits", "marks"]);
}

#[test]
fn the_times_of_requests_become_histograms() {
    let line = "active - writeback 32 7/4096 640 14 ssd_us_more 1 ssd_us_128 5 ssd_us_16 70 ssd_us_32 0 \
                disk_us_8192 2 fills 3 disk_us_16384 4";
    let sample = line.parse::<StatusLine>().unwrap().sample(0);
    let told = |latency: &Latency| -> Vec<(u64, u64)> {
        let buckets = latency.buckets.iter();
        buckets.map(|b| (b.below_us, b.requests)).collect()
    };
    assert_eq!(
        told(&sample.ssd_latency),
        [(16, 70), (32, 0), (128, 5), (u64::MAX, 1)]
    );
    assert_eq!(told(&sample.disk_latency), [(8192, 2), (16384, 4)]);
    assert_eq!((sample.events.len(), sample.event("fills")), (1, 3));
}

#[test]
fn what_is_not_of_the_form_is_refused() {
    for bad in [
        "",
        "active - writethrough 32 7/4096 0",
        "active - write-back 32 7/4096 0 0",
        "active - writethrough 32 7 0 0",
        "active - writethrough 32 7/4096 0 2 fills",
        "active - writethrough 32 7/4096 0 1 fills",
        "active - writethrough 32 7/4096 0 2 fills -1",
        "active - writethrough 32 7/4096 0 4 fills 1 fills 1",
        "active - writethrough 32 7/4096 0 2 fills 1 more",
    ] {
        assert!(bad.parse::<StatusLine>().is_err(), "{bad}");
    }
}
