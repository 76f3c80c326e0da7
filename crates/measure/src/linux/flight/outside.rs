//! Time that is invisible to the kernel: hypervisor and firmware. Only the part that counters show.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;

use laggard_model::{Cpu, CpuList, Nanos, Stolen};
use nix::unistd::{SysconfVar, sysconf};

use super::super::clock;

/// `MSR_SMI_COUNT`, Intel: system management interrupts since reset.
const SMI_COUNT: u64 = 0x34;
/// Number of readings that are kept: some seconds at the collector's rate.
const MAX_READINGS: usize = 64;

/// Periodic readings of counters, so that their change around an episode is known later.
#[derive(Debug)]
pub struct OutsideCounters {
    readings: VecDeque<Reading>,
    cpus: CpuList,
    msrs: Vec<Option<File>>,
    tick: Nanos,
    /// Whether steal ticks are read. The kernel takes some 30,000 instructions for `/proc/stat`.
    reads_steal: bool,
}

#[derive(Debug)]
struct Reading {
    at: Nanos,
    /// Steal ticks per CPU, in the order of `cpus`; empty if the kernel does not report them.
    steal_ticks: Vec<u64>,
    smis: Vec<Option<u32>>,
}

impl OutsideCounters {
    pub fn new(cpus: &CpuList) -> Self {
        Self::open(cpus, true)
    }

    /// Creates the counters without steal time, because [`StealClock`](super::StealClock) has it.
    pub(super) fn without_steal(cpus: &CpuList) -> Self {
        Self::open(cpus, false)
    }

    fn open(cpus: &CpuList, reads_steal: bool) -> Self {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        let msr = |cpu: &Cpu| File::open(format!("/dev/cpu/{cpu}/msr")).ok();
        let mut outside = Self {
            readings: VecDeque::new(),
            cpus: cpus.clone(),
            // A file that opens but is not readable, as on AMD, counts as absent.
            msrs: cpus
                .as_slice()
                .iter()
                .map(|cpu| msr(cpu).filter(|file| smis(file).is_some()))
                .collect(),
            tick: Nanos::from_ns(1_000_000_000 / u64::try_from(ticks).unwrap_or(100).max(1)),
            reads_steal,
        };
        outside.read();
        outside
    }

    pub fn read(&mut self) {
        if self.readings.len() == MAX_READINGS {
            self.readings.pop_front();
        }
        let text = if self.reads_steal {
            std::fs::read_to_string("/proc/stat").unwrap_or_default()
        } else {
            String::new()
        };
        self.readings.push_back(Reading {
            at: clock::now(),
            steal_ticks: self
                .cpus
                .as_slice()
                .iter()
                .map_while(|cpu| steal_ticks(&text, *cpu))
                .collect(),
            smis: self.msrs.iter().map(|msr| smis(msr.as_ref()?)).collect(),
        });
    }

    /// Returns the steal time between the readings before and after a window.
    pub fn stolen(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Option<Stolen> {
        let (before, after, place) = self.around(cpu, from, to)?;
        let ticks = after
            .steal_ticks
            .get(place)?
            .checked_sub(*before.steal_ticks.get(place)?)?;
        Some(Stolen {
            time_ns: self.tick * ticks,
            step_ns: self.tick,
        })
    }

    /// Returns whether a CPU has had steal time since boot.
    pub fn has_stolen(&self, cpu: Cpu) -> bool {
        let place = self.cpus.as_slice().iter().position(|other| *other == cpu);
        let ticks = place.and_then(|place| self.readings.back()?.steal_ticks.get(place));
        ticks.is_some_and(|&ticks| ticks > 0)
    }

    /// Returns the number of system management interrupts between the readings around this span.
    pub(super) fn smis(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Option<u32> {
        let (before, after, place) = self.around(cpu, from, to)?;
        let (first, last) = ((*before.smis.get(place)?)?, (*after.smis.get(place)?)?);
        Some(last.wrapping_sub(first))
    }

    fn around(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Option<(&Reading, &Reading, usize)> {
        let place = self
            .cpus
            .as_slice()
            .iter()
            .position(|other| *other == cpu)?;
        let before = self.readings.iter().rfind(|reading| reading.at <= from)?;
        let after = self
            .readings
            .iter()
            .find(|reading| reading.at >= to)
            .or(self.readings.back())?;
        Some((before, after, place))
    }
}

/// Returns the eighth number of a CPU's line in `/proc/stat`: steal ticks.
fn steal_ticks(stat: &str, cpu: Cpu) -> Option<u64> {
    let name = format!("cpu{cpu}");
    stat.lines()
        .map(str::split_ascii_whitespace)
        .find_map(|mut words| (words.next() == Some(&name)).then(|| words.nth(7)))?
        .and_then(|ticks| ticks.parse().ok())
}

fn smis(msr: &File) -> Option<u32> {
    let mut bytes = [0; 8];
    msr.read_exact_at(&mut bytes, SMI_COUNT).ok()?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 9 9 9 9 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu10 1 2 3 4 5 6 7 80 0 0\n";

    #[test]
    fn steal_ticks_are_the_eighth_number_of_the_cpu() {
        assert_eq!(steal_ticks(STAT, Cpu(0)), Some(8));
        assert_eq!(steal_ticks(STAT, Cpu(10)), Some(80));
        assert_eq!(steal_ticks(STAT, Cpu(1)), None);
    }

    #[test]
    fn change_comes_from_the_readings_next_to_the_window() {
        let reading = |ms, ticks| Reading {
            at: Nanos::from_ms(ms),
            steal_ticks: vec![ticks],
            smis: vec![None],
        };
        let outside = OutsideCounters {
            readings: [
                reading(0, 1),
                reading(100, 2),
                reading(200, 4),
                reading(300, 9),
            ]
            .into(),
            cpus: [Cpu(3)].into_iter().collect(),
            msrs: vec![None],
            tick: Nanos::from_ms(10),
            reads_steal: true,
        };

        let stolen = outside.stolen(Cpu(3), Nanos::from_ms(120), Nanos::from_ms(140));
        assert_eq!(
            stolen.map(|stolen| stolen.time_ns),
            Some(Nanos::from_ms(20))
        );
        assert_eq!(
            outside.stolen(Cpu(0), Nanos::from_ms(120), Nanos::from_ms(140)),
            None
        );
        assert_eq!(
            outside.smis(Cpu(3), Nanos::from_ms(120), Nanos::from_ms(140)),
            None
        );
    }
}
