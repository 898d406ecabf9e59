// SPDX-License-Identifier: GPL-3.0-or-later
//! The report of an SSD about its own health (SMART), as UDisks2 reads the report every ten minutes. UDisks2 reads NVMe
//! drives from version 2.10 on.

use std::collections::HashMap;
use tandem_api::udisks::{Object, UDISKS};
use tandem_api::{SelfReport, SsdHealth};
use zbus::fdo::ManagedObjects;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

/// Warnings of an NVMe drive that pass by themselves.
const PASSING: [&str; 1] = ["temperature"];

/// The attribute of an ATA drive whose normalised value counts down from 100 with the life that is left, and how the
/// models of its makers begin. The number of an attribute means something else for each maker, so it is read for these
/// makers only.
const LIFE_LEFT: [(u8, &[&str]); 4] = [
    (177, &["samsung"]),
    (202, &["ct", "crucial", "micron"]),
    (231, &["kingston"]),
    (233, &["intel"]),
];

/// An attribute of an ATA drive: number, name, flags, normalised value, worst value, threshold, meaning and its unit.
type Attribute = (
    u8,
    String,
    u16,
    i32,
    i32,
    i32,
    i64,
    i32,
    HashMap<String, OwnedVariant>,
);

/// The health of a drive, without its wear.
pub(crate) fn health(objects: &ManagedObjects, drive: &OwnedObjectPath) -> SsdHealth {
    let object = Object(objects, drive);
    let read = |failing, hours_on, read_at| match read_at {
        0 => SsdHealth::unknown(),
        _ => SsdHealth {
            report: if failing {
                SelfReport::Failing
            } else {
                SelfReport::Good
            },
            hours_on,
            read_at,
            ..SsdHealth::unknown()
        },
    };
    if let Some(nvme) = object.get("NVMe.Controller") {
        let warnings = nvme.texts("SmartCriticalWarning");
        let failing = warnings.iter().any(|w| !PASSING.contains(&w.as_str()));
        return read(
            failing,
            nvme.number("SmartPowerOnHours"),
            nvme.number("SmartUpdated"),
        );
    }
    match object.get("Drive.Ata") {
        Some(ata) if ata.flag("SmartSupported") && ata.flag("SmartEnabled") => read(
            ata.flag("SmartFailing"),
            ata.number("SmartPowerOnSeconds") / 3600,
            ata.number("SmartUpdated"),
        ),
        _ => SsdHealth::unknown(),
    }
}

/// The share of its life that a drive has used, in percent, if the drive tells it.
///
/// # Errors
/// If UDisks2 cannot read the drive now.
pub(crate) async fn used_percent(
    connection: &Connection,
    drive: &str,
    model: &str,
) -> zbus::Result<Option<i32>> {
    let options: HashMap<&str, OwnedVariant> = HashMap::new();
    let body = (options,);
    let ask = async |interface: &str| {
        let interface = format!("{UDISKS}.{interface}");
        let method = "SmartGetAttributes";
        connection
            .call_method(Some(UDISKS), drive, Some(interface.as_str()), method, &body)
            .await
    };
    if let Ok(reply) = ask("NVMe.Controller").await {
        let values: HashMap<String, OwnedVariant> = reply.body().deserialize()?;
        return Ok(match values.get("percent_used").map(|value| &**value) {
            Some(Variant::U8(used)) => Some((*used).into()),
            _ => None,
        });
    }
    let reply = ask("Drive.Ata").await?;
    let attributes: Vec<Attribute> = reply.body().deserialize()?;
    Ok(ata_used(model, attributes.iter().map(|a| (a.0, a.3))))
}

/// The same from the attributes of an ATA drive: numbers and normalised values.
fn ata_used(model: &str, mut attributes: impl Iterator<Item = (u8, i32)>) -> Option<i32> {
    let model = model.to_lowercase();
    let known = |(_, makers): &&(u8, &[&str])| makers.iter().any(|m| model.starts_with(m));
    let (number, _) = LIFE_LEFT.iter().find(known)?;
    let (_, left) = attributes.find(|(id, _)| id == number)?;
    (0..=100).contains(&left).then_some(100 - left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(interface: &str, values: &[(&str, Variant<'static>)]) -> ManagedObjects {
        let values = values.iter().map(|(name, value)| {
            let value = OwnedVariant::try_from(value.clone()).unwrap();
            ((*name).to_owned(), value)
        });
        let interface = format!("{UDISKS}.{interface}");
        let interface = zbus::names::OwnedInterfaceName::try_from(interface).unwrap();
        let interfaces = HashMap::from([(interface, values.collect())]);
        HashMap::from([(drive(), interfaces)])
    }

    fn drive() -> OwnedObjectPath {
        OwnedObjectPath::try_from("/drive").unwrap()
    }

    #[test]
    fn a_drive_that_was_not_read_is_not_called_good() {
        let ata = |supported, updated: u64, failing| {
            let values = [
                ("SmartSupported", Variant::new(supported)),
                ("SmartEnabled", Variant::new(true)),
                ("SmartFailing", Variant::new(failing)),
                ("SmartUpdated", Variant::new(updated)),
                ("SmartPowerOnSeconds", Variant::new(7201_u64)),
            ];
            health(&objects("Drive.Ata", &values), &drive())
        };
        assert_eq!(ata(false, 5, false), SsdHealth::unknown());
        assert_eq!(ata(true, 0, false), SsdHealth::unknown());
        assert_eq!(
            health(&objects("Drive", &[]), &drive()),
            SsdHealth::unknown()
        );
        let good = ata(true, 5, false);
        assert_eq!(
            (good.report, good.hours_on, good.read_at),
            (SelfReport::Good, 2, 5)
        );
        assert_eq!(ata(true, 5, true).report, SelfReport::Failing);
    }

    #[test]
    fn an_nvme_drive_fails_by_what_does_not_pass() {
        let nvme = |warnings: &[&'static str]| {
            let values = [
                ("SmartCriticalWarning", Variant::new(warnings.to_vec())),
                ("SmartUpdated", Variant::new(5_u64)),
                ("SmartPowerOnHours", Variant::new(70_u64)),
            ];
            health(&objects("NVMe.Controller", &values), &drive())
        };
        assert_eq!(
            (nvme(&[]).report, nvme(&[]).hours_on),
            (SelfReport::Good, 70)
        );
        assert_eq!(nvme(&["temperature"]).report, SelfReport::Good);
        for warning in ["spare", "degraded", "readonly", "volatile_mem"] {
            let seen = nvme(&["temperature", warning]);
            assert_eq!(seen.report, SelfReport::Failing, "{warning}");
        }
    }

    #[test]
    fn the_wear_of_an_ata_drive_is_read_only_where_its_maker_is_known() {
        let attributes = [(9, 98), (177, 97), (202, 100), (233, 55)];
        let used = |model| ata_used(model, attributes.into_iter());
        assert_eq!(used("Samsung SSD 870 EVO 250GB"), Some(3));
        assert_eq!(used("CT500MX500SSD1"), Some(0));
        assert_eq!(used("INTEL SSDSC2BB48"), Some(45));
        // This maker's attribute is missing; the number 233 of another maker counts bytes.
        assert_eq!(used("KINGSTON SA400S37120G"), None);
        assert_eq!(used("WDC WDS500G2B0A"), None);
        assert_eq!(ata_used("Samsung", [(177, 200)].into_iter()), None);
    }
}
