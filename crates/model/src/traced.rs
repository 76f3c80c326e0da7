//! Services of traces of other systems, which `import -o` records.

use std::fmt;
use std::str::FromStr;

/// Longest name of a driver that is stored unchanged, bytes.
const LONGEST: usize = 32;
/// Length of the stored part of a longer name, before its mark, bytes.
const KEPT: usize = LONGEST - 5;

/// File name of a driver, such as `ndis.sys`.
///
/// Spaces, commas and similar characters are replaced by `_`. A name of more than 32
/// bytes keeps its first 27 and ends in `~` and four digits of a checksum of the whole,
/// so that two long names with a common prefix differ.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DriverName([u8; LONGEST]);

impl DriverName {
    /// Creates the name from this file name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut kept = [0; LONGEST];
        let most = match name.len() {
            0..=LONGEST => LONGEST,
            _ => KEPT,
        };
        for (place, byte) in kept[..most].iter_mut().zip(name.bytes()) {
            *place = if is_plain(byte) { byte } else { b'_' };
        }
        if name.len() > LONGEST {
            let mark = format!("~{:04x}", checksum(name));
            kept[KEPT..].copy_from_slice(mark.as_bytes());
        }
        Self(kept)
    }
}

/// Pattern for every driver. No file of Windows has this name.
const EVERY: &str = "*";

/// Returns FNV-1a of 32 bits, folded to 16.
fn checksum(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    (hash >> 16) ^ (hash & 0xffff)
}

/// Returns whether a byte does not need quoting in a list or a terminal.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b',' | b'"' | b'\'' | b'\\' | b'`')
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|&byte| byte == 0);
        f.write_str(&String::from_utf8_lossy(&self.0[..end.unwrap_or(LONGEST)]))
    }
}

/// Service of a Windows trace.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum TracedService {
    /// Interrupt service routines of a driver: their run times.
    Isr(DriverName),
    /// Deferred procedure calls of a driver, including timer DPCs and threaded DPCs: their run
    /// times.
    Dpc(DriverName),
    /// Threads that then ran with this priority, 0 to 31: their time in the ready
    /// state.
    Ready(u8),
    /// Threads that touched a page on disk: their waits for it.
    HardFault,
}

impl TracedService {
    /// Returns the position among these services: ISRs, DPCs, threads by falling
    /// priority, hard faults.
    pub(crate) const fn rank(&self) -> u64 {
        match self {
            Self::Isr(_) => 0,
            Self::Dpc(_) => 1,
            Self::Ready(priority) => 2 + 255 - *priority as u64,
            Self::HardFault => 300,
        }
    }

    /// Returns whether this names `other`: equal, or the pattern for every driver
    /// (`dpc:*`).
    #[must_use]
    pub fn takes_in(&self, other: &Self) -> bool {
        let every = DriverName::new(EVERY);
        match (self, other) {
            (Self::Isr(driver), Self::Isr(_)) | (Self::Dpc(driver), Self::Dpc(_))
                if *driver == every =>
            {
                true
            }
            _ => self == other,
        }
    }

    /// Returns the service of a driver with another name.
    #[must_use]
    pub fn renamed(self, name: impl FnOnce(&str) -> String) -> Self {
        let new = |driver: DriverName| DriverName::new(&name(&driver.to_string()));
        match self {
            Self::Isr(driver) => Self::Isr(new(driver)),
            Self::Dpc(driver) => Self::Dpc(new(driver)),
            Self::Ready(_) | Self::HardFault => self,
        }
    }

    /// Returns the name for display: `DPCs of ndis.sys`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Isr(driver) => format!("ISRs of {driver}"),
            Self::Dpc(driver) => format!("DPCs of {driver}"),
            Self::Ready(priority) => format!("ready threads of priority {priority}"),
            Self::HardFault => "hard faults".into(),
        }
    }
}

impl fmt::Display for TracedService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isr(driver) => write!(f, "isr:{driver}"),
            Self::Dpc(driver) => write!(f, "dpc:{driver}"),
            Self::Ready(priority) => write!(f, "ready:{priority}"),
            Self::HardFault => f.write_str("hardfault"),
        }
    }
}

/// Not a service of a trace.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not of a trace; write it as `isr:DRIVER`, `dpc:DRIVER`, `ready:15` or `hardfault`"
)]
pub struct ParseTracedError(String);

impl FromStr for TracedService {
    type Err = ParseTracedError;

    fn from_str(text: &str) -> Result<Self, ParseTracedError> {
        let driver = |name: &str| {
            let is_good = !name.is_empty() && name.len() <= LONGEST && name.bytes().all(is_plain);
            is_good.then(|| DriverName::new(name))
        };
        let parsed_service = match text.split_once(':') {
            Some(("isr", name)) => driver(name).map(Self::Isr),
            Some(("dpc", name)) => driver(name).map(Self::Dpc),
            Some(("ready", priority)) => {
                let parsed = priority.parse().ok().map(Self::Ready);
                parsed.filter(|service| service.to_string() == text)
            }
            None if text == "hardfault" => Some(Self::HardFault),
            _ => None,
        };
        parsed_service.ok_or_else(|| ParseTracedError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_traces_are_read_back_for_any_driver_name() {
        for (name, text) in [
            ("ndis.sys", "isr:ndis.sys"),
            ("a b,c\x1b\u{e4}.sys", "isr:a_b_c___.sys"),
            (
                "0123456789abcdef0123456789abcdef",
                "isr:0123456789abcdef0123456789abcdef",
            ),
        ] {
            let service = TracedService::Isr(DriverName::new(name));

            assert_eq!(service.to_string(), text);
            assert_eq!(text.parse(), Ok(service));
        }
        for text in ["dpc:unknown", "ready:0", "ready:31", "hardfault"] {
            assert_eq!(text.parse::<TracedService>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "isr",
            "isr:",
            "dpc:a b",
            "ready:x",
            "ready:256",
            "ready:+1",
            "fault",
        ] {
            assert!(text.parse::<TracedService>().is_err(), "{text}");
        }
    }

    #[test]
    fn long_driver_names_with_the_same_prefix_differ() {
        let name =
            |end: &str| DriverName::new(&format!("Microsoft.Bluetooth.Legacy.LEEnumerator{end}"));

        assert_ne!(name("1.sys"), name("2.sys"));
        assert_eq!(name("1.sys").to_string().len(), LONGEST);
        assert!(
            name("1.sys")
                .to_string()
                .starts_with("Microsoft.Bluetooth.Legacy.~")
        );
        let text = format!("dpc:{}", name("1.sys"));
        assert_eq!(text.parse::<TracedService>().unwrap().to_string(), text);
    }

    #[test]
    fn isrs_precede_dpcs_and_urgent_threads_precede_others() {
        let ranks = ["isr:a", "dpc:a", "ready:31", "ready:0", "hardfault"]
            .map(|text| text.parse::<TracedService>().unwrap().rank());

        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }
}
