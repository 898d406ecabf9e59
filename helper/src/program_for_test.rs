// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs that tests put in the place of real ones.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a program with this text, and the folders above it. A process of its own writes the file: a file that a test has open
/// for writing is inherited by each program that another test starts at this moment, and the kernel starts no file that is
/// open for writing.
pub fn make(path: &Path, text: &str) {
    let mut install = Command::new("install")
        .args(["-D", "-m755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = install.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    assert!(install.wait().unwrap().success(), "{}", path.display());
}
