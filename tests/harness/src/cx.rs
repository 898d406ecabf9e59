// SPDX-License-Identifier: GPL-3.0-or-later
//! The places of files: the work tree, its build directory, and the cache of files that are fetched or made once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The places that every command uses.
#[derive(Clone, Debug)]
pub struct Cx {
    /// Top of the work tree.
    pub root: PathBuf,
    /// Cargo's target directory: build results, logs and reports.
    pub target: PathBuf,
    /// Packages, kernels, images and saved machine states, each named by its sources. Survives `cargo clean`.
    pub cache: PathBuf,
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
        // Another process may be making the directory now; two kernel builds at once would take twice as long.
        let lock = File::create(parent.join(format!("{key}.lock")))?;
        lock.lock().with_context(|| format!("cannot lock {key}"))?;
        if done.is_dir() {
            return Ok(done);
        }
        let partial = parent.join(format!("{key}.partial-{}", std::process::id()));
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
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
        self.cached(kind, key, |dir| {
            make(dir)?;
            for entry in fs::read_dir(self.cache.join(kind))? {
                let path = entry?.path();
                let made = path.is_dir() && !path.to_string_lossy().contains(".partial-");
                if made {
                    fs::remove_dir_all(&path)?;
                }
            }
            Ok(())
        })
    }
}

/// Tells the person the current step.
pub fn say(text: impl AsRef<str>) {
    println!("==> {}", text.as_ref());
}

/// Tells the person something that may need action.
pub fn notice(text: impl AsRef<str>) {
    println!("  ! {}", text.as_ref());
}
