// SPDX-License-Identifier: GPL-3.0-or-later
//! What the command line says of its commands and their arguments.

use clap::{Arg, Command, CommandFactory};
use gettextrs::gettext;

use crate::Arguments;

/// The command line with its help in the language of the person.
#[must_use]
pub fn command() -> Command {
    let mut command = Arguments::command();
    command.build();
    let exit_codes = gettext(
        "Exit codes: 0 done, 1 failed or canceled, 2 wrong usage, 3 refused and nothing changed, 4 not allowed, 5 service not there, 6 service gone in the middle of a job.",
    );
    worded(command, "").after_help(exit_codes)
}

/// The same for the screen, with the headings of that language.
#[must_use]
pub fn command_with_headings() -> Command {
    headed(command())
}

fn headed(command: Command) -> Command {
    // Translators: a heading of the help of a command
    let usage = gettext("Usage:");
    command
        .help_template(format!(
            "{{before-help}}{{about-with-newline}}\n{usage} {{usage}}\n\n{{all-args}}{{after-help}}"
        ))
        // Translators: a heading of the help of a command
        .subcommand_help_heading(gettext("Commands"))
        .mut_args(|argument| {
            let heading = match argument.is_positional() {
                // Translators: a heading of the help of a command
                true => gettext("Arguments"),
                // Translators: a heading of the help of a command
                false => gettext("Options"),
            };
            // Under a heading of their own, clap sorts arguments by their names.
            let order = argument.get_index();
            let argument = argument.help_heading(heading);
            match order {
                Some(order) => argument.display_order(order),
                None => argument,
            }
        })
        .mut_subcommands(headed)
}

/// `path`: the names of the command and of those that it belongs to, without the program.
fn worded(command: Command, path: &str) -> Command {
    let (about, more) = about(path);
    let command = match more {
        Some(more) => command.long_about(format!("{about}\n\n{more}")),
        None => command,
    };
    let command = command.about(about);
    let command = command.mut_args(|argument| described(argument, path));
    command.mut_subcommands(|inner| match inner.get_name().to_owned() {
        // This one has a copy of all commands.
        name if name == "help" => inner.about(gettext("Print this help, or the help of a command")),
        name => worded(inner, format!("{path} {name}").trim_start()),
    })
}

/// What a command does, and what more has to be known of it.
fn about(path: &str) -> (String, Option<String>) {
    let short = match path {
        "" => gettext(
            "Makes an SSD a cache for a disk that holds data, and gives the plain disk back",
        ),
        "rescue" => {
            gettext("Save what is on the SSD of a cache without the service and the kernel module")
        }
        "list" => gettext("List caches and disks"),
        "plan" => gettext("Say exactly what creating a cache would do, and change nothing"),
        "create" => gettext("Create a cache"),
        "names" => gettext(
            "Have the start of this computer find a disk by UUID, so that it finds the disk with a cache, too",
        ),
        "cancel" => gettext("Cancel a cache that waits for the next start of the computer"),
        "report" => gettext(
            "Print what helps to understand a problem: versions, devices, caches and the journal, without labels, serial numbers and folders",
        ),
        "found" => gettext(
            "Show the caches on SSDs that this system does not know, from another computer or an earlier installation",
        ),
        "take-over" => gettext(
            "Use a cache that this system does not know; what is only on the SSD can be written to the disk then",
        ),
        "discard-found" => {
            gettext("Discard what is on the SSD of a cache that this system does not know")
        }
        "confirm-disk" => {
            gettext("Confirm that a disk is the disk of a cache, where that is not sure")
        }
        "status" => gettext("Show one cache, or all"),
        "history" => gettext(
            "Show what a cache did in the last hour, day or month: hit rate, speeds, and what was not yet on the hard disk",
        ),
        "watch" => gettext("Show a cache's counters each second until interrupted"),
        "watch-disk" => gettext(
            "Have the service watch how a disk without a cache is used, to predict whether a cache helps",
        ),
        "advice" => gettext(
            "Say whether a cache would help the disks that are watched, and how large it should be",
        ),
        "speed-test" => gettext(
            "Measure how fast a disk is with its SSD and without it; reads only, for 30 seconds at most",
        ),
        "mode" => gettext("Treat writes another way from now on"),
        "pause" => gettext(
            "Have a cache store nothing new, until it is resumed or the computer is started again",
        ),
        "start" => gettext(
            "Start a cache again that was stopped when its disk was unmounted, to be unplugged",
        ),
        "resume" => gettext("Have a paused cache store new data again"),
        "dirty-limit" => {
            gettext("Set how much data may be on the SSD only, in write-back, and how long")
        }
        "rename" => gettext("Give a cache a name of your own"),
        "reset-statistics" => gettext("Begin the figures since the setup of a cache anew"),
        "before-off" => {
            gettext("Write everything to the disk before the computer is switched off or restarted")
        }
        "flush" => {
            gettext("Write everything to the disk that is not yet on it, and keep the cache")
        }
        "resize" => gettext("Give a cache another share of its SSD; the disk stays in use"),
        "remove" => {
            gettext("Write everything to the disk, release the SSD, and restore the plain disk")
        }
        "rescue show" => gettext(
            "Show which disk the SSD belongs to, and how much is not yet on that disk; change nothing",
        ),
        "rescue verify" => gettext(
            "Read everything that counts on the SSD, and compare its copies with the disk; change nothing",
        ),
        "rescue write-back" => gettext(
            "Write what is not yet on the disk to the disk; may be interrupted and repeated",
        ),
        "rescue view" => gettext(
            "Show the disk as it was with its cache, read-only, as a network block device; change nothing",
        ),
        _ => String::new(),
    };
    let more = match path {
        "rescue" => gettext(
            "Works from a live system too, and on image files of the SSD and the disk. Neither of the two may be in use.",
        ),
        "confirm-disk" => gettext(
            "“tandemctl status” shows the disks that may be it, and what speaks for each and against it.",
        ),
        "watch-disk" => gettext(
            "This changes nothing on the disk. It goes on over restarts of the computer, until it is stopped or the disk gets a cache. A first answer takes a day.",
        ),
        "history" => gettext(
            "A time in which the computer was off has no line. For a cache of another system, give its whole name as “tandemctl list” shows it, such as films/movies or bcache0: there is its last hour, and the hit rate is approximate.",
        ),
        "pause" => gettext(
            "What the cache holds goes on being read from the SSD. Use it for a large copy or a backup that is not to take the place of what you use every day.",
        ),
        "remove" => gettext(
            "For a cache of another system, give its whole name as “tandemctl list” shows it, such as films/movies or bcache0. The disk stays in use.",
        ),
        "dirty-limit" => gettext(
            "An option that is left out gets the value of a new cache: 10 minutes, three quarters of the cache, and no rest.",
        ),
        _ => return (short, None),
    };
    (short, Some(more))
}

/// What an argument means.
fn described(argument: Arg, path: &str) -> Arg {
    let words = match (path, argument.get_id().as_str()) {
        (_, "help") => gettext("Print help"),
        (_, "version") => gettext("Print version"),
        (_, "json") => gettext("Print JSON for programs instead of text for people"),
        (_, "yes") => gettext("Do not ask"),
        ("status" | "resize", "cache") => gettext(
            "Cache: its name, its UUID, or the beginning of its UUID (four characters or more)",
        ),
        (_, "cache") => gettext("Cache; may be left out if there is one"),
        ("plan" | "create", "ssd") => gettext(
            "SSD, partition or logical volume that becomes the cache; with --partition the SSD to share",
        ),
        ("take-over" | "discard-found", "ssd") => {
            gettext("SSD or partition with the cache, such as sdb or /dev/sdb")
        }
        ("rescue show", "ssd") => gettext(
            "SSD or partition that was the cache, such as /dev/sdb or /dev/sdb2, or a file with its content",
        ),
        (_, "ssd") => gettext("SSD or partition that was the cache, or a file with its content"),
        ("confirm-disk", "disk") => gettext("Disk or partition, such as sda1 or /dev/sda1"),
        ("advice", "disk") => gettext("Disk or partition; all that are watched without it"),
        ("speed-test", "disk") => gettext(
            "Test this disk or partition without a cache instead, such as sda1 or /dev/sda1",
        ),
        ("plan" | "create" | "names" | "watch-disk", "disk") => {
            gettext("Disk or partition with the data, such as sda1 or /dev/sda1")
        }
        (_, "disk") => gettext("Disk or partition that had the cache, or a file with its content"),
        ("mode", "mode") => gettext("writethrough, writearound or writeback"),
        (_, "mode") => gettext(
            "writethrough: writes go to both; writearound: to the disk only; writeback: to the SSD first",
        ),
        ("resize", "size") => gettext("New size of the share, such as 100GB or 64GiB"),
        (_, "size") => gettext("Only so much, such as 500MB (1MiB at least)"),
        (_, "partition") => gettext(
            "Make a partition of this size in the free space of the SSD, such as 100GB or 64GiB, and use only that",
        ),
        (_, "memory") => gettext(
            "Use so much of this computer's memory in the place of an SSD, such as 2GiB (64MiB at least): the cache begins empty at each start, gives way when programs need the memory, and is not for writeback",
        ),
        (_, "erase_ssd") => gettext("Agree that whatever is on the SSD may be erased"),
        (_, "at_next_start") => gettext(
            "Prepare the SSD now, and use it from the next start of the computer on: for disks that are always in use",
        ),
        (_, "kernel_cache") => gettext(
            "Have the kernel's own cache (dm-cache) serve it, without Tandem's kernel module: it begins empty after a crash, and at each start of the computer unless the disk has ext4 or Btrfs, knows only writethrough, and cannot be paused",
        ),
        (_, "count") => gettext("End after this many samples"),
        (_, "span") => gettext("How far back: hour, day or month"),
        (_, "stop") => gettext("Stop, and forget what was seen"),
        (_, "last") => gettext("Show the last result of the cache again, and test nothing"),
        (_, "seconds") => gettext("Only as much as the disk can write in so many seconds"),
        (_, "rest") => gettext(
            "Let data wait for so many minutes while no program uses the hard disk, so that the disk can rest",
        ),
        (_, "name") => gettext("Name, of 64 characters at most; \"\" takes the name away"),
        (_, "undo") => gettext("Take back the last new beginning"),
        (_, "minutes") => {
            gettext("How long that may take, in minutes (25 at most); 0: it is not done")
        }
        (_, "pause") => gettext("Have the flush or removal that is under way wait"),
        (_, "resume") => gettext("Have it go on"),
        (_, "discard_unwritten") => {
            gettext("Discard the data that is not yet on the hard disk and cannot be written to it")
        }
        (_, "records") => gettext("Records of the system that had the cache"),
        (_, "whole") => gettext("Compare all copies instead of some thousand"),
        (_, "dry_run") => gettext("Name what would be written, and write nothing"),
        (_, "socket") => gettext("Unix socket to make"),
        (_, "port") => {
            gettext("Port of 127.0.0.1 to use; every program of this computer can read it")
        }
        (_, "disk_serial") => gettext(
            "Serial number of the disk, or name of the image file: agree that this is the right one",
        ),
        (_, "ssd_map") => {
            gettext("Map that ddrescue made beside the image of the SSD: what it could not read")
        }
        (_, "ssd_complete") => gettext("The image of the SSD was made without a read error"),
        (_, "over_newer_data") => gettext(
            "Write what is on the SSD although the disk seems to have newer data, which is lost then",
        ),
        _ => String::new(),
    };
    argument.help(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &Command, seen: &mut Vec<String>) {
        let name = command.get_name();
        assert!(
            command
                .get_about()
                .is_some_and(|words| !words.to_string().is_empty()),
            "{name}"
        );
        for argument in command.get_arguments() {
            let id = argument.get_id();
            let words = argument.get_help().map(ToString::to_string);
            assert!(words.is_some_and(|words| !words.is_empty()), "{name} {id}");
            seen.push(format!("{name} {id}"));
        }
        for inner in command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help")
        {
            all(inner, seen);
        }
    }

    #[test]
    fn every_command_and_every_argument_is_explained() {
        let mut seen = Vec::new();
        all(&command(), &mut seen);
        for one in [
            "remove discard_unwritten",
            "write-back disk_serial",
            "list help",
        ] {
            assert!(seen.iter().any(|seen| seen == one), "{one}: {seen:?}");
        }
    }

    #[test]
    fn memory_takes_the_place_of_an_ssd() {
        let fits = |more: &[&str]| {
            let words = ["tandemctl", "create", "sda1"].iter().chain(more);
            command().try_get_matches_from(words).is_ok()
        };
        assert!(fits(&["--memory", "2GiB"]) && fits(&["sdb"]) && !fits(&[]));
        for other in [
            "sdb",
            "--partition=1GB",
            "--kernel-cache",
            "--at-next-start",
            "--erase-ssd",
        ] {
            assert!(!fits(&["--memory", "2GiB", other]), "{other}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        command_with_headings().debug_assert();
    }
}
