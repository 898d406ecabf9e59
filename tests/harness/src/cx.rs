// SPDX-License-Identifier: GPL-3.0-or-later
//! The places of files: the work tree, its build directory, and the cache of files that are fetched or made once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::machine::Machine;

/// The places that every command uses.
#[derive(Clone, Debug)]
pub struct Cx {
    /// Top of the work tree.
    pub root: PathBuf,
    /// Cargo's target directory: build results, logs and reports.
    pub target: PathBuf,
    /// Packages, kernels, images and saved machine states, each named by its sources. Survives `cargo clean`.
    pub cache: PathBuf,
    /// The system of the virtual machine.
    pub machine: Machine,
}

impl Cx {
    /// Finds the work tree and makes the two directories.
    pub fn new() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest
            .ancestors()
            .nth(2)
            .context("xtask has moved in the work tree")?
            .to_owned();
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(home);
        let cache = base
            .context("neither XDG_CACHE_HOME nor HOME is set")?
            .join("tandem");
        fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        Ok(Self {
            root,
            target,
            cache,
            machine: Machine::default(),
        })
    }

    /// A path below the top of the work tree.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A directory in the cache under `kind`. `make` fills it unless a directory made from the same `key` exists.
    ///
    /// `make` gets a fresh directory, which gets its final name only if `make` succeeds: a directory with a final name
    /// is complete. Older directories of the same kind are kept, so that switching a branch back costs nothing.
    pub fn cached(
        &self,
        kind: &str,
        key: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let parent = self.cache.join(kind);
        let done = parent.join(key);
        if done.is_dir() {
            return Ok(done);
        }
        fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        remove_unfinished(&parent)?;
        // Another process may be making the directory now; two kernel builds at once would take twice as long.
        let lock = File::create(parent.join(format!("{key}.lock")))?;
        lock.lock().with_context(|| format!("cannot lock {key}"))?;
        if done.is_dir() {
            return Ok(done);
        }
        let partial = parent.join(format!("{key}.partial-{}", std::process::id()));
        fs::create_dir_all(&partial)
            .with_context(|| format!("cannot make {}", partial.display()))?;
        let made = make(&partial);
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&partial);
            return Err(error);
        }
        fs::rename(&partial, &done)
            .with_context(|| format!("cannot rename to {}", done.display()))?;
        Ok(done)
    }

    /// As [`Self::cached`], for large directories that are soon replaced: older directories of the same kind are
    /// removed. A process with open files in such a directory keeps those files.
    pub fn newest(
        &self,
        kind: &str,
        key: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        self.recent(kind, key, 0, make)
    }

    /// As [`Self::newest`], for a kind with a directory for each of a few kernels: the `others` directories that were
    /// used last stay.
    pub fn recent(
        &self,
        kind: &str,
        key: &str,
        others: usize,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let parent = self.cache.join(kind);
        let done = self.cached(kind, key, |dir| {
            make(dir)?;
            for old in made(&parent)?.into_iter().skip(others) {
                fs::remove_dir_all(&old)?;
            }
            Ok(())
        })?;
        // The time of this file tells the last use.
        File::create(parent.join(format!("{key}.lock")))?.set_modified(SystemTime::now())?;
        Ok(done)
    }
}

/// The complete directories of a kind, the directory that was used last first.
fn made(parent: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let name = path.to_string_lossy();
        if path.is_dir() && !name.contains(".partial-") {
            let used = fs::metadata(format!("{name}.lock")).and_then(|lock| lock.modified());
            found.push((used.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Removes what processes left that were stopped while they made a directory. A process that still makes its
/// directory holds the lock.
fn remove_unfinished(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let name = path.to_string_lossy();
        let Some((done, _)) = name.split_once(".partial-") else {
            continue;
        };
        let lock = File::create(format!("{done}.lock"))?;
        if lock.try_lock().is_ok() {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

/// Tells the person the current step.
pub fn say(text: impl AsRef<str>) {
    println!("==> {}", text.as_ref());
}

/// Tells the person something that may need action.
pub fn notice(text: impl AsRef<str>) {
    println!("  ! {}", text.as_ref());
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use anyhow::bail;

    use super::*;

    #[test]
    fn the_directories_used_last_stay_and_what_a_stopped_process_left_goes() -> Result<()> {
        let root = std::env::temp_dir().join(format!("tandem-cache-{}", std::process::id()));
        let cx = Cx {
            root: root.clone(),
            target: root.clone(),
            cache: root.clone(),
            machine: Machine::default(),
        };
        let kind = root.join("state");
        fs::create_dir_all(kind.join("lost.partial-1"))?;
        for (age, key) in [(30, "one"), (20, "two"), (10, "three")] {
            cx.cached("state", key, |_| Ok(()))?;
            let lock = File::create(kind.join(format!("{key}.lock")))?;
            lock.set_modified(SystemTime::now() - Duration::from_secs(age))?;
        }
        cx.recent("state", "one", 2, |_| bail!("one is made"))?;
        assert!(!kind.join("lost.partial-1").exists());

        // A process that still makes its directory.
        fs::create_dir(kind.join("being-made.partial-2"))?;
        let lock = kind.join("being-made.lock");
        let mut maker = Command::new("flock")
            .arg(&lock)
            .args(["sh", "-c", "echo; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        maker
            .stdout
            .as_mut()
            .context("no output")?
            .read_exact(&mut [0])?;
        cx.recent("state", "four", 2, |_| Ok(()))?;
        assert!(kind.join("being-made.partial-2").exists());
        let stay = ["one", "three", "four"].map(|key| kind.join(key).exists());
        assert_eq!((stay, kind.join("two").exists()), ([true; 3], false));

        drop(maker.stdin.take());
        maker.wait()?;
        fs::remove_dir_all(&root)?;
        Ok(())
    }
}
