//! What a trace of another system tells of, as services: what `import -o` records.

use std::fmt;
use std::str::FromStr;

/// Longest name of a driver that is kept as it is, bytes.
const LONGEST: usize = 32;
/// What is kept of a longer one before its mark, bytes.
const KEPT: usize = LONGEST - 5;

/// The file name of a driver, such as `ndis.sys`.
///
/// It has no spaces, commas and the like: what else it was given is `_`. One of more
/// than 32 bytes keeps its first 27 and ends in `~` and four digits of a checksum of the
/// whole, so that two long ones that begin alike stay apart.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DriverName([u8; LONGEST]);

impl DriverName {
    /// Of this file name.
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

/// In place of a driver's name: of every driver. No file of Windows has this name.
const EVERY: &str = "*";

/// FNV-1a of 32 bits, folded to 16.
fn checksum(name: &str) -> u32 {
    let all = name.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    (all >> 16) ^ (all & 0xffff)
}

/// What needs no quoting in a list or a terminal.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b',' | b'"' | b'\'' | b'\\' | b'`')
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|&one| one == 0);
        f.write_str(&String::from_utf8_lossy(&self.0[..end.unwrap_or(LONGEST)]))
    }
}

/// What a trace of Windows tells the times of.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum TracedService {
    /// Interrupt service routines of a driver: how long each ran.
    Isr(DriverName),
    /// Deferred procedure calls of a driver, queued ones, those of timers and threaded
    /// ones: how long each ran.
    Dpc(DriverName),
    /// Threads that then ran with this priority, 0 to 31: how long each was ready before.
    Ready(u8),
    /// Threads that touched a page that was on a disk: how long each waited for it.
    HardFault,
}

impl TracedService {
    /// Its place among such: ISRs, DPCs, threads by falling priority, hard faults.
    pub(crate) const fn rank(&self) -> u64 {
        match self {
            Self::Isr(_) => 0,
            Self::Dpc(_) => 1,
            Self::Ready(priority) => 2 + 255 - *priority as u64,
            Self::HardFault => 300,
        }
    }

    /// Whether `other` is what this names: itself, or what any driver has where this is of
    /// every one (`dpc:*`).
    #[must_use]
    pub fn takes_in(&self, other: &Self) -> bool {
        let every = DriverName::new(EVERY);
        match (self, other) {
            (Self::Isr(of), Self::Isr(_)) | (Self::Dpc(of), Self::Dpc(_)) if *of == every => true,
            _ => self == other,
        }
    }

    /// The same of a driver of another name.
    #[must_use]
    pub fn renamed(self, name: impl FnOnce(&str) -> String) -> Self {
        let new = |driver: DriverName| DriverName::new(&name(&driver.to_string()));
        match self {
            Self::Isr(driver) => Self::Isr(new(driver)),
            Self::Dpc(driver) => Self::Dpc(new(driver)),
            Self::Ready(_) | Self::HardFault => self,
        }
    }

    /// As a person calls it: `DPCs of ndis.sys`.
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

/// A text is none of them.
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
        let found = match text.split_once(':') {
            Some(("isr", name)) => driver(name).map(Self::Isr),
            Some(("dpc", name)) => driver(name).map(Self::Dpc),
            Some(("ready", priority)) => {
                let parsed = priority.parse().ok().map(Self::Ready);
                parsed.filter(|one| one.to_string() == text)
            }
            None if text == "hardfault" => Some(Self::HardFault),
            _ => None,
        };
        found.ok_or_else(|| ParseTracedError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trace_tells_is_read_back_from_its_text_whatever_the_driver_is_called() {
        for (name, text) in [
            ("ndis.sys", "isr:ndis.sys"),
            ("a b,c\x1b\u{e4}.sys", "isr:a_b_c___.sys"),
            (
                "0123456789abcdef0123456789abcdef",
                "isr:0123456789abcdef0123456789abcdef",
            ),
        ] {
            let one = TracedService::Isr(DriverName::new(name));

            assert_eq!(one.to_string(), text);
            assert_eq!(text.parse(), Ok(one));
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
    fn drivers_with_long_names_that_begin_alike_stay_apart() {
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
    fn isrs_come_before_dpcs_and_urgent_threads_before_others() {
        let ranks = ["isr:a", "dpc:a", "ready:31", "ready:0", "hardfault"]
            .map(|text| text.parse::<TracedService>().unwrap().rank());

        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }
}
