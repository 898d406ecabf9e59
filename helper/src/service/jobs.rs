// SPDX-License-Identifier: GPL-3.0-or-later
//! What runs on which devices: jobs, and work without a job that has reserved its devices.

use super::caches::no_object;
use crate::model::facts::Ident;
use tandem_api::{DeviceText, Failure, Kind, ROOT_PATH};
use zbus::OwnedObjectPath;

/// Jobs and reservations at a time.
const MAX_JOBS: usize = 8;

/// A job, or a reservation.
struct Job {
    /// The object of the job; `/` for a reservation.
    path: OwnedObjectPath,
    uuid: String,
    devices: [Ident; 2],
    records: bool,
}

/// The jobs and the reservations. No two of them have a device in common.
#[derive(Default)]
pub(super) struct Jobs {
    running: Vec<Job>,
    /// Jobs that have begun since the start of the service.
    begun: u64,
}

impl Jobs {
    /// Whether nothing runs.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The object of the job of a cache; `/` if there is a reservation.
    pub fn of(&self, uuid: &str) -> Option<OwnedObjectPath> {
        let running = self.running.iter().find(|job| job.uuid == uuid);
        running.map(|job| job.path.clone())
    }

    /// The caches, by their UUIDs.
    pub fn caches(&self) -> Vec<String> {
        self.running.iter().map(|job| job.uuid.clone()).collect()
    }

    /// Whether something runs that updates the record of this cache itself.
    pub fn records(&self, uuid: &str) -> bool {
        let mut running = self.running.iter();
        running.any(|job| job.uuid == uuid && job.records)
    }

    /// Whether nothing uses these devices.
    ///
    /// # Errors
    /// `Busy`.
    pub fn free(&self, devices: &[Ident; 2]) -> Result<(), Failure> {
        let busy = self
            .running
            .iter()
            .find(|job| shared(&job.devices, devices));
        busy.map_or(Ok(()), |job| {
            Err(Failure::new(Kind::Busy).device(&job.devices[0].text))
        })
    }

    /// Begins a job of a cache on these devices, and gives it an object path. `records`: the job creates or removes the
    /// cache or changes the mode, and updates the record of the cache itself.
    ///
    /// # Errors
    /// `TooMany`, `Busy`.
    pub fn begin(
        &mut self,
        uuid: &str,
        devices: &[Ident; 2],
        records: bool,
    ) -> Result<OwnedObjectPath, Failure> {
        if self.running.len() >= MAX_JOBS {
            return Err(Failure::new(Kind::TooMany));
        }
        self.free(devices)?;
        self.begun += 1;
        let path = OwnedObjectPath::try_from(format!("{ROOT_PATH}/jobs/{}", self.begun))
            .map_err(|e| Failure::new(Kind::Internal).detail(e))?;
        self.enter(path.clone(), uuid, devices, records);
        Ok(path)
    }

    /// Reserves devices for work on a cache without a job. `records`: as for a job.
    ///
    /// # Errors
    /// `Busy`.
    pub fn reserve(
        &mut self,
        uuid: &str,
        devices: &[Ident; 2],
        records: bool,
    ) -> Result<(), Failure> {
        self.free(devices)?;
        self.enter(DeviceText::none().object, uuid, devices, records);
        Ok(())
    }

    fn enter(&mut self, path: OwnedObjectPath, uuid: &str, devices: &[Ident; 2], records: bool) {
        self.running.push(Job {
            path,
            uuid: uuid.to_owned(),
            devices: devices.clone(),
            records,
        });
    }

    /// The job with this object has ended.
    pub fn end(&mut self, path: &OwnedObjectPath) {
        self.running.retain(|job| job.path != *path);
    }

    /// The work of a cache that had reserved its devices has ended.
    pub fn end_reservation(&mut self, uuid: &str) {
        let none = DeviceText::none().object;
        self.running
            .retain(|job| job.uuid != uuid || job.path != none);
    }
}

/// Whether the two pairs have a device in common. One of them may be from an old record, which names a drive in another
/// way: only the present identity has all names of the drive.
pub(super) fn shared(a: &[Ident; 2], b: &[Ident; 2]) -> bool {
    let same = |a: &Ident, b: &Ident| {
        // Memory that no cache has taken yet has no object.
        let object = a.text.object == b.text.object && a.text.object != no_object();
        a.same_hardware(b) || b.same_hardware(a) || object
    };
    a.iter().any(|a| b.iter().any(|b| same(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::device;

    fn devices(disk: &str, ssd: &str) -> [Ident; 2] {
        [disk, ssd].map(|name| device(name, 1 << 30).ident)
    }

    #[test]
    fn a_device_of_an_old_record_is_found_to_be_in_use_whichever_comes_first() {
        let ident = |object: &str, hardware: &str, names: &[&str]| {
            let mut ident = crate::decide::plan::tests::device(object, 1 << 30).ident;
            ident.hardware = hardware.to_owned();
            ident.names = names.iter().map(|&name| name.to_owned()).collect();
            ident
        };
        let old = [
            ident("sda", "naa.5/SER_A", &[]),
            ident("sdb", "naa.6/SER_B", &[]),
        ];
        let now = [
            ident("sdx", "0x5/A", &["0x5", "A", "SER_A", "naa.5"]),
            ident("sdy", "0x7/C", &["0x7", "C"]),
        ];
        let other = [now[1].clone(), now[1].clone()];
        assert!(shared(&now, &old) && shared(&old, &now));
        assert!(!shared(&other, &old) && !shared(&old, &other));
    }

    #[test]
    fn a_device_is_used_once_and_free_when_its_work_has_ended() {
        let mut jobs = Jobs::default();
        let first = jobs.begin("a", &devices("sda1", "sdb"), true).unwrap();
        assert_eq!(jobs.of("a").as_ref(), Some(&first));
        assert!(jobs.records("a") && !jobs.records("b"));
        for (disk, ssd) in [("sda1", "sdc"), ("sdd1", "sdb"), ("sdb", "sda1")] {
            let busy = Kind::Busy;
            let devices = devices(disk, ssd);
            assert_eq!(jobs.begin("b", &devices, true).unwrap_err().kind, busy);
            assert_eq!(jobs.reserve("b", &devices, true).unwrap_err().kind, busy);
        }
        jobs.reserve("c", &devices("sdd1", "sde"), false).unwrap();
        assert!(!jobs.records("c"));
        // A reservation has no object, and the end of a job ends no reservation of the same cache.
        jobs.end_reservation("a");
        jobs.end(&first);
        assert_eq!(jobs.caches(), ["c"]);
        let second = jobs.begin("b", &devices("sda1", "sdb"), true).unwrap();
        assert_ne!(first, second);
        jobs.end_reservation("c");
        jobs.end(&second);
        assert!(jobs.is_empty());
    }

    #[test]
    fn so_many_jobs_run_and_no_more() {
        let mut jobs = Jobs::default();
        let pair = |number: usize| devices(&format!("sd{number}d"), &format!("sd{number}s"));
        for number in 0..MAX_JOBS {
            jobs.begin(&number.to_string(), &pair(number), true)
                .unwrap();
        }
        let more = jobs.begin("more", &pair(MAX_JOBS), true).unwrap_err();
        assert_eq!(more.kind, Kind::TooMany);
    }
}
