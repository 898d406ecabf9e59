// SPDX-License-Identifier: GPL-3.0-or-later
//! A build of core: the one that the program is linked with, or one in a library.

use std::ffi::{CStr, c_char};
#[cfg(feature = "load")]
use std::{path::Path, rc::Rc};

#[cfg(feature = "load")]
use crate::ffi::API_VERSION;
use crate::ffi::{Api, Geometry, Layout};

unsafe extern "C" {
    fn tandem_user_api() -> *const Api;
}

/// A build of core.
#[derive(Clone)]
pub struct Core {
    pub(crate) api: &'static Api,
    #[cfg(feature = "load")]
    library: Option<Rc<libloading::Library>>,
}

/// A build of core cannot be used.
#[cfg(feature = "load")]
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The dynamic linker refused.
    #[error("cannot load: {0}")]
    Load(#[from] libloading::Error),
    /// The library was built from another user.h.
    #[error("built from another version of this program")]
    Version,
}

impl Core {
    /// The build of core that this program was linked with.
    pub fn linked() -> Core {
        // SAFETY: returns a pointer to a constant.
        Core {
            api: unsafe { &*tandem_user_api() },
            #[cfg(feature = "load")]
            library: None,
        }
    }

    /// The build of core in the library at `path`.
    ///
    /// # Errors
    /// The linker refuses the library, or it was built from another user.h.
    #[cfg(feature = "load")]
    pub fn load(path: &Path) -> Result<Core, LoadError> {
        // SAFETY: the library has no constructors; the symbol has this type in user.h; the constant that it returns lives as
        // long as the library, which every copy of this structure keeps.
        unsafe {
            let library = libloading::Library::new(path)?;
            let symbol =
                library.get::<unsafe extern "C" fn() -> *const Api>(b"tandem_user_api\0")?;
            let api = &*symbol();
            if api.version != API_VERSION {
                return Err(LoadError::Version);
            }
            Ok(Core {
                api,
                library: Some(Rc::new(library)),
            })
        }
    }

    /// Completes `geometry`, which says the sizes of the disks, as a new superblock would; false if core refuses.
    pub fn plan(&self, geometry: &mut Geometry) -> bool {
        // SAFETY: a plain function of numbers that fills `geometry`.
        unsafe { (self.api.plan)(geometry) }
    }

    /// Where frames lie.
    pub fn layout(&self, geometry: &Geometry) -> Layout {
        let mut layout = Layout::default();
        // SAFETY: a plain function of numbers that fills `layout`.
        unsafe { (self.api.layout)(geometry, &mut layout) };
        layout
    }

    /// What has to be written for a new cache: first sector and bytes of each write.
    pub fn format(&self, geometry: &Geometry) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        let (mut sector, mut sectors, mut bytes) = (0, 0, std::ptr::null());
        // SAFETY: `bytes` has `sectors` sectors until the next call.
        while let step = all.len() as u32
            && unsafe {
                (self.api.format_next)(geometry, step, &mut sector, &mut sectors, &mut bytes)
            }
        {
            let bytes = unsafe { std::slice::from_raw_parts(bytes, sectors as usize * 512) };
            all.push((sector, bytes.to_vec()));
        }
        all
    }

    /// Names of the counters that status shows, in order.
    pub fn counter_names(&self) -> Vec<String> {
        // SAFETY: in range, and the names are constants.
        (0..self.api.shown)
            .map(|which| unsafe { text((self.api.counter_name)(which)) })
            .collect()
    }

    /// The library that this core was loaded from; `None` for the linked one.
    #[cfg(feature = "load")]
    pub fn library(&self) -> Option<&libloading::Library> {
        self.library.as_deref()
    }
}

/// A text of the library; empty for NULL.
///
/// # Safety
/// `string` is NULL or ends in a zero.
pub unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}
