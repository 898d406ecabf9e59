// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads fstab and the kernel's mount tables with libmount. This code copies the tables into plain values at once. No
//! pointer of libmount leaves this file.

use super::nodes::device_number;
use rustix::fs::Dev;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

/// `MNT_ITER_FORWARD`.
const FORWARD: c_int = 0;

// `dev_t` has 64 bits in all C libraries that Rust supports here, also where `long` has 32.
#[link(name = "mount")]
unsafe extern "C" {
    fn mnt_new_table() -> *mut c_void;
    fn mnt_unref_table(table: *mut c_void);
    fn mnt_table_parse_fstab(table: *mut c_void, path: *const c_char) -> c_int;
    fn mnt_table_parse_mtab(table: *mut c_void, path: *const c_char) -> c_int;
    fn mnt_table_parse_stream(table: *mut c_void, file: *mut c_void, name: *const c_char) -> c_int;
    fn mnt_table_next_fs(table: *mut c_void, iter: *mut c_void, fs: *mut *mut c_void) -> c_int;
    fn mnt_new_iter(direction: c_int) -> *mut c_void;
    fn mnt_free_iter(iter: *mut c_void);
    fn mnt_fs_get_id(fs: *mut c_void) -> c_int;
    fn mnt_fs_get_parent_id(fs: *mut c_void) -> c_int;
    fn mnt_fs_get_devno(fs: *mut c_void) -> Dev;
    fn mnt_fs_get_root(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_source(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_target(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_fstype(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_tag(
        fs: *mut c_void,
        name: *mut *const c_char,
        value: *mut *const c_char,
    ) -> c_int;
    fn mnt_fs_get_options(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_vfs_options(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_fs_options(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_user_options(fs: *mut c_void) -> *const c_char;
    fn mnt_fs_get_optional_fields(fs: *mut c_void) -> *const c_char;
    fn mnt_optstr_get_option(
        options: *const c_char,
        name: *const c_char,
        value: *mut *mut c_char,
        size: *mut usize,
    ) -> c_int;
}

unsafe extern "C" {
    fn fmemopen(text: *mut c_void, size: usize, mode: *const c_char) -> *mut c_void;
    fn fclose(file: *mut c_void) -> c_int;
}

/// An entry of fstab or of a mount table. A missing text is empty. All escapes are decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Number of the mount.
    pub id: u64,
    /// Number of the parent mount.
    pub parent: u64,
    /// `major:minor`; `0:0` in fstab.
    pub device: String,
    /// Part of the file system that is mounted.
    pub root: String,
    /// The source as it is named, with its tag.
    pub source: String,
    /// Tag and value of a source like `LABEL=My Disk`, without quotes.
    pub tag: Option<(String, String)>,
    /// Mount point.
    pub target: String,
    /// Type of the file system.
    pub fstype: String,
    /// All options.
    pub options: String,
    /// Options of the mount, in a mount table.
    pub vfs_options: String,
    /// Options of the file system, in a mount table.
    pub fs_options: String,
    /// Options that only mount(8) knows, such as the helper that mounted.
    pub user_options: String,
    /// Propagation of the mount: `shared:1 master:2`.
    pub propagation: String,
}

impl Entry {
    /// Whether one of the options has this name.
    pub fn has_option(&self, name: &str) -> bool {
        has_option(&self.options, name)
    }
}

/// Whether one of these options has this name.
pub fn has_option(options: &str, name: &str) -> bool {
    let (Ok(options), Ok(name)) = (CString::new(options), CString::new(name)) else {
        return false;
    };
    // SAFETY: both texts end with a zero; the value is not asked for.
    let found = unsafe {
        mnt_optstr_get_option(
            options.as_ptr(),
            name.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    found == 0
}

/// A `libmnt_table`.
struct Table(NonNull<c_void>);

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: it was made by mnt_new_table and is referred to only here.
        unsafe { mnt_unref_table(self.0.as_ptr()) };
    }
}

/// A `libmnt_iter`.
struct Iter(NonNull<c_void>);

impl Drop for Iter {
    fn drop(&mut self) {
        // SAFETY: it was made by mnt_new_iter and is not used any more.
        unsafe { mnt_free_iter(self.0.as_ptr()) };
    }
}

fn made(pointer: *mut c_void) -> io::Result<NonNull<c_void>> {
    NonNull::new(pointer).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// libmount returns negative error numbers; positive ones are warnings.
fn checked(result: c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

impl Table {
    fn new() -> io::Result<Self> {
        // SAFETY: no arguments.
        made(unsafe { mnt_new_table() }).map(Self)
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        // SAFETY: no pointer is given.
        let iter = Iter(made(unsafe { mnt_new_iter(FORWARD) })?);
        let mut entries = Vec::new();
        loop {
            let mut fs = ptr::null_mut();
            // SAFETY: table and iterator live; `fs` is a place for a pointer.
            let next = unsafe { mnt_table_next_fs(self.0.as_ptr(), iter.0.as_ptr(), &mut fs) };
            checked(next)?;
            if next > 0 || fs.is_null() {
                return Ok(entries);
            }
            // SAFETY: libmount gave this entry, and the table keeps it as long as it lives.
            entries.push(unsafe { entry(fs) });
        }
    }
}

/// A copy of a text of libmount; empty if there is none.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn copy(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// # Safety
/// `fs` is an entry of a table that lives.
unsafe fn entry(fs: *mut c_void) -> Entry {
    let (mut name, mut value) = (ptr::null(), ptr::null());
    // SAFETY: as the caller says; all texts belong to the entry and end with a zero.
    unsafe {
        let tagged = mnt_fs_get_tag(fs, &mut name, &mut value) == 0;
        let number = mnt_fs_get_devno(fs);
        Entry {
            id: mnt_fs_get_id(fs).try_into().unwrap_or(0),
            parent: mnt_fs_get_parent_id(fs).try_into().unwrap_or(0),
            device: device_number(number),
            root: copy(mnt_fs_get_root(fs)),
            source: copy(mnt_fs_get_source(fs)),
            tag: tagged.then(|| (copy(name), copy(value))),
            target: copy(mnt_fs_get_target(fs)),
            fstype: copy(mnt_fs_get_fstype(fs)),
            options: copy(mnt_fs_get_options(fs)),
            vfs_options: copy(mnt_fs_get_vfs_options(fs)),
            fs_options: copy(mnt_fs_get_fs_options(fs)),
            user_options: copy(mnt_fs_get_user_options(fs)),
            propagation: copy(mnt_fs_get_optional_fields(fs)),
        }
    }
}

/// The entries of an fstab. Lines that are malformed are left out.
///
/// # Errors
/// If it cannot be read.
pub fn fstab(path: &Path) -> io::Result<Vec<Entry>> {
    let (table, path) = (Table::new()?, c_path(path)?);
    // SAFETY: the table lives; the path ends with a zero.
    checked(unsafe { mnt_table_parse_fstab(table.0.as_ptr(), path.as_ptr()) })?;
    table.entries()
}

/// The entries of a process's `mountinfo`, with what mount(8) has noted down of them.
///
/// # Errors
/// If it cannot be read.
pub fn mounts(path: &Path) -> io::Result<Vec<Entry>> {
    let (table, path) = (Table::new()?, c_path(path)?);
    // SAFETY: the table lives; the path ends with a zero.
    checked(unsafe { mnt_table_parse_mtab(table.0.as_ptr(), path.as_ptr()) })?;
    table.entries()
}

/// The entries of the text of an fstab or a `mountinfo`, without what mount(8) has noted down.
///
/// # Errors
/// If there is no memory for it.
pub fn parse(text: &str) -> io::Result<Vec<Entry>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let table = Table::new()?;
    // SAFETY: the stream is opened for reading only, and the text outlives it.
    let stream = unsafe { fmemopen(text.as_ptr().cast_mut().cast(), text.len(), c"r".as_ptr()) };
    let stream = made(stream)?;
    // SAFETY: table and stream live; the stream is closed once.
    let parsed = unsafe {
        let parsed = mnt_table_parse_stream(table.0.as_ptr(), stream.as_ptr(), c"text".as_ptr());
        fclose(stream.as_ptr());
        parsed
    };
    checked(parsed)?;
    table.entries()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_is_read_with_its_quotes_and_escapes() {
        let text = "# LABEL=no /no ext4 defaults 0 0\n\
                    LABEL=My\\040Disk /srv/my\\040disk ext4 defaults 0 2\n\
                    LABEL=\"Other\" /other ext4 noauto,x-systemd.automount 0 2\n\
                    garbage\n\
                    /dev/sdx1\t/x\text4\n";
        let entries = parse(text).unwrap();
        let tag = |at: usize| entries[at].tag.clone().unwrap().1;
        assert_eq!((tag(0), tag(1)), ("My Disk".into(), "Other".into()));
        assert_eq!(entries[0].target, "/srv/my disk");
        assert!(entries[1].has_option("noauto") && entries[1].has_option("x-systemd.automount"));
        assert!(!entries[0].has_option("noauto") && !entries[1].has_option("auto"));
        let last = entries.last().unwrap();
        assert_eq!((last.source.as_str(), &last.tag), ("/dev/sdx1", &None));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn the_mount_table_of_this_machine_is_read() {
        let entries = mounts(Path::new("/proc/self/mountinfo")).unwrap();
        let root = entries.iter().find(|e| e.target == "/").unwrap();
        assert!(root.id > 0 && !root.fstype.is_empty() && root.device.contains(':'));
        let missing = mounts(Path::new("/nonexistent/mountinfo"));
        assert!(missing.is_err() || missing.is_ok_and(|all| all.is_empty()));
        assert_eq!(
            fstab(Path::new("/nonexistent")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
