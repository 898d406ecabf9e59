// SPDX-License-Identifier: GPL-3.0-or-later
//! Content hashes, which name the files in the cache.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// SHA-256 of a file, in hex.
pub fn file(path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut input = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = input
            .read(&mut buffer)
            .with_context(|| format!("cannot read {}", path.display()))?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(hex(&hasher.finalize()))
}

/// A short key of several texts. Each text is delimited, so that moving a byte from one text to the next changes the
/// key.
pub fn key<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        let bytes = part.as_ref();
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hex(&hasher.finalize()[..8])
}

/// A key of all files below `directory`: their relative names, contents and executable bits.
pub fn tree(directory: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort();
    let mut parts = Vec::new();
    for path in files {
        parts.push(
            path.strip_prefix(directory)?
                .as_os_str()
                .as_encoded_bytes()
                .to_vec(),
        );
        let kind = fs::symlink_metadata(&path)?;
        if kind.file_type().is_symlink() {
            parts.push(
                fs::read_link(&path)?
                    .as_os_str()
                    .as_encoded_bytes()
                    .to_vec(),
            );
            continue;
        }
        use std::os::unix::fs::PermissionsExt;
        parts.push(vec![u8::from(kind.permissions().mode() & 0o100 != 0)]);
        let mut content = Vec::new();
        File::open(&path)?.read_to_end(&mut content)?;
        parts.push(content);
    }
    Ok(key(parts))
}

fn collect(directory: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    for entry in
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?
    {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn key_tells_the_boundary_between_parts() {
        assert_ne!(super::key(["ab", "c"]), super::key(["a", "bc"]));
        assert_eq!(super::key(["ab", "c"]), super::key(["ab", "c"]));
    }
}
