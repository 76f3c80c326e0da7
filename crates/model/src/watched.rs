//! Threads of other programs as services, which `attach` records.

use std::fmt;
use std::str::FromStr;

use crate::ThreadName;

/// Kind of wakeup.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WokenWay {
    /// High-resolution timer.
    Timer,
    /// Timer wheel.
    Wheel,
    /// Interrupt of this number.
    Irq(u32),
    /// Interrupt of the CPU itself.
    Vector,
    /// Softirq of this number.
    Softirq(u32),
    /// Interrupt or softirq without a tracepoint.
    Interrupt,
    /// Thread.
    Thread,
}

impl fmt::Display for WokenWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timer => f.write_str("timer"),
            Self::Wheel => f.write_str("wheel"),
            Self::Irq(number) => write!(f, "irq-{number}"),
            Self::Vector => f.write_str("vector"),
            Self::Softirq(vector) => write!(f, "softirq-{vector}"),
            Self::Interrupt => f.write_str("interrupt"),
            Self::Thread => f.write_str("thread"),
        }
    }
}

/// Unknown kind of wakeup.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a kind of wakeup")]
pub struct UnknownWay(String);

impl FromStr for WokenWay {
    type Err = UnknownWay;

    fn from_str(text: &str) -> Result<Self, UnknownWay> {
        let number = |digits: &str| digits.parse().map_err(|_| UnknownWay(text.into()));
        match (text, text.split_once('-')) {
            ("timer", _) => Ok(Self::Timer),
            ("wheel", _) => Ok(Self::Wheel),
            ("vector", _) => Ok(Self::Vector),
            ("interrupt", _) => Ok(Self::Interrupt),
            ("thread", _) => Ok(Self::Thread),
            (_, Some(("irq", digits))) => Ok(Self::Irq(number(digits)?)),
            (_, Some(("softirq", digits))) => Ok(Self::Softirq(number(digits)?)),
            _ => Err(UnknownWay(text.into())),
        }
    }
}

/// Thread of another program with one kind of wakeup: `cyclictest/timer`, and
/// `cyclictest#2/timer` for the second thread of that name. The TID differs in each
/// run, so recordings could not be compared by it.
///
/// Spaces, commas and similar characters in the name are replaced by `_`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WatchedTask {
    name: ThreadName,
    /// Number of the thread among threads of that name, from 1.
    which: u32,
    way: WokenWay,
}

impl WatchedTask {
    /// Creates the service of the `which`-th thread of this name, from 1.
    #[must_use]
    pub fn new(name: ThreadName, which: u32, way: WokenWay) -> Self {
        let mut kept = [0; 16];
        // The last byte is the kernel's 0.
        let given = name.0[..15].iter().take_while(|&&byte| byte != 0);
        for (place, &byte) in kept.iter_mut().zip(given) {
            *place = if is_plain(byte) { byte } else { b'_' };
        }
        let name = ThreadName(kept);
        let which = which.max(1);
        Self { name, which, way }
    }

    /// Returns the thread without its kind of wakeup: `cyclictest#2`.
    #[must_use]
    pub fn thread(&self) -> String {
        match self.which {
            1 => self.name(),
            more => format!("{}#{more}", self.name),
        }
    }

    /// Returns the kind of wakeup.
    #[must_use]
    pub const fn way(&self) -> WokenWay {
        self.way
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Returns the same service with another name.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Self {
        let mut bytes = [0; 16];
        for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
            *place = byte;
        }
        Self::new(ThreadName(bytes), self.which, self.way)
    }
}

/// Returns whether a byte does not need quoting in a list, a file name or a terminal.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b',' | b'#' | b'"' | b'\'' | b'\\' | b'`')
}

impl fmt::Display for WatchedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.thread(), self.way)
    }
}

/// Not a thread.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a thread of a recording; write it as `NAME/WAY` or `NAME#2/WAY`")]
pub struct ParseTaskError(String);

impl FromStr for WatchedTask {
    type Err = ParseTaskError;

    fn from_str(text: &str) -> Result<Self, ParseTaskError> {
        let parsed = || {
            // Names may contain slashes: `kworker/0:1`.
            let (thread, way) = text.rsplit_once('/')?;
            let (name, which) = match thread.split_once('#') {
                Some((name, which)) => (name, which.parse().ok().filter(|&number| number > 1)?),
                None => (thread, 1),
            };
            let mut bytes = [0; 16];
            let is_good = name.len() <= 15 && name.bytes().all(is_plain);
            bytes
                .get_mut(..name.len())?
                .copy_from_slice(name.as_bytes());
            is_good.then_some(Self {
                name: ThreadName(bytes),
                which,
                way: way.parse().ok()?,
            })
        };
        parsed().ok_or_else(|| ParseTaskError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, which: u32) -> WatchedTask {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        WatchedTask::new(ThreadName(bytes), which, WokenWay::Irq(27))
    }

    #[test]
    fn thread_is_read_back_from_its_text_for_any_name() {
        for (name, which, text) in [
            ("cyclictest", 1, "cyclictest/irq-27"),
            ("cyclictest", 12, "cyclictest#12/irq-27"),
            ("kworker/0:1", 1, "kworker/0:1/irq-27"),
            ("Web Content#2", 1, "Web_Content_2/irq-27"),
            ("\x1b[2J,\u{e4}", 1, "_[2J___/irq-27"),
            ("", 2, "#2/irq-27"),
        ] {
            let parsed = task(name, which);

            assert_eq!(parsed.to_string(), text);
            assert_eq!(text.parse(), Ok(parsed));
        }
    }

    #[test]
    fn kinds_of_wakeup_are_read_back() {
        let ways = [
            WokenWay::Timer,
            WokenWay::Wheel,
            WokenWay::Irq(0),
            WokenWay::Irq(u32::MAX),
            WokenWay::Vector,
            WokenWay::Softirq(3),
            WokenWay::Interrupt,
            WokenWay::Thread,
        ];
        for woken_by in ways {
            assert_eq!(woken_by.to_string().parse(), Ok(woken_by));
        }
    }

    #[test]
    fn invalid_thread_is_refused() {
        for text in [
            "",
            "a",
            "a/tea",
            "a#1/timer",
            "a#x/timer",
            "a b/timer",
            "0123456789012345/timer",
        ] {
            assert!(text.parse::<WatchedTask>().is_err(), "{text}");
        }
    }
}
