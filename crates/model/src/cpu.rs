//! CPUs and lists of them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Logical CPU, by the kernel's number.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Cpu(pub u32);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// CPUs in ascending order, without duplicates, in the kernel's notation: `0-3,6`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
pub struct CpuList(Vec<Cpu>);

impl CpuList {
    /// Returns the CPUs, ascending.
    pub fn as_slice(&self) -> &[Cpu] {
        &self.0
    }

    /// Returns whether `cpu` is listed.
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Returns the number of listed CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no CPU is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Cpu> for CpuList {
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        let mut list: Vec<Cpu> = cpus.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        Self(list)
    }
}

/// Reason why a text is not a list of CPUs.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCpuListError {
    /// A part is neither a number nor a range.
    #[error("`{0}` is not a CPU or a range of CPUs; write a list such as `0-3,6`")]
    NotACpu(String),
    /// A range ends before it starts.
    #[error("the range `{0}` ends before it starts; write the smaller CPU first")]
    Backwards(String),
    /// A number is larger than in any kernel. The list may be from a recording of
    /// another system.
    #[error("CPU {0} does not exist; the largest number is 8191")]
    TooLarge(u32),
}

/// Maximum number of CPUs of a Linux kernel.
const MAX_CPUS: u32 = 8192;

impl FromStr for CpuList {
    type Err = ParseCpuListError;

    fn from_str(text: &str) -> Result<Self, ParseCpuListError> {
        let number = |part: &str| -> Result<u32, ParseCpuListError> {
            let cpu: u32 = part
                .trim()
                .parse()
                .map_err(|_| ParseCpuListError::NotACpu(part.trim().into()))?;
            if cpu >= MAX_CPUS {
                return Err(ParseCpuListError::TooLarge(cpu));
            }
            Ok(cpu)
        };
        let mut cpus = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(ParseCpuListError::Backwards(part.into()));
            }
            cpus.extend((first..=last).map(Cpu));
        }
        Ok(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for cpu in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu.0 => *last = cpu.0,
                _ => runs.push((cpu.0, cpu.0)),
            }
        }
        let text: Vec<String> = runs
            .iter()
            .map(|(first, last)| {
                if first == last {
                    first.to_string()
                } else {
                    format!("{first}-{last}")
                }
            })
            .collect();
        f.write_str(&text.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_and_written_in_the_kernels_notation() {
        for (text, written) in [
            ("0-3,6", "0-3,6"),
            ("6, 1,0", "0-1,6"),
            ("", ""),
            ("3,3", "3"),
        ] {
            let list: CpuList = text.parse().unwrap();

            assert_eq!(list.to_string(), written, "for {text:?}");
        }
    }

    #[test]
    fn invalid_lists_are_refused_with_the_reason() {
        for (text, error) in [
            (
                "a",
                "`a` is not a CPU or a range of CPUs; write a list such as `0-3,6`",
            ),
            (
                "3-1",
                "the range `3-1` ends before it starts; write the smaller CPU first",
            ),
            (
                "0-99999",
                "CPU 99999 does not exist; the largest number is 8191",
            ),
        ] {
            assert_eq!(text.parse::<CpuList>().unwrap_err().to_string(), error);
        }
    }
}
