//! What is said of causes in words.

use laggard_analyze::causes::Ranking;
use laggard_model::name::{self, line_name};
use laggard_model::text::{Unit, count};
use laggard_model::{Because, Cpu, CpuList, Line, Nanos};

use super::{CauseRow, RhythmRow};

/// A cause with less of the episodes' time than this gets no sentence.
pub(super) const WORTH_A_SENTENCE: f64 = 0.1;
/// The same for what laggard itself took.
const OWN_WORTH_A_SENTENCE: f64 = 0.01;

/// How much of the time laggard itself took, where that is worth a word.
pub(super) fn own_share(rows: &[CauseRow]) -> Option<String> {
    let own = rows.iter().filter(|row| row.is_ours);
    let (time, share) = own.fold((Nanos::ZERO, 0.0), |(time, share), row| {
        (time + row.total_ns, share + row.share)
    });
    (share >= OWN_WORTH_A_SENTENCE).then(|| {
        format!(
            "Of this time, {} ({:.0} %) went to laggard's own threads, which is not the machine's doing.",
            Unit::Auto.write_nanos(time),
            share * 100.0
        )
    })
}

/// How many there are and how late, then the causes that matter.
pub(super) fn sentences_of(rows: &[CauseRow], all: &Ranking) -> Vec<String> {
    if all.episodes == 0 {
        return Vec::new();
    }
    let mut sentences = vec![format!(
        "{}, the largest {}.",
        plural(all.episodes),
        at_least(all.is_at_least, all.largest)
    )];
    sentences.extend(leading(rows).map(|row| sentence(row, all.episodes)));
    sentences
}

/// The causes that matter: the first three with a tenth of the time or more.
pub fn leading(rows: &[CauseRow]) -> impl Iterator<Item = &CauseRow> {
    rows.iter()
        .filter(|row| row.share >= WORTH_A_SENTENCE)
        .take(3)
}

impl CauseRow {
    /// The cause in words, with the threads that took part.
    pub fn name(&self) -> String {
        name::cause_with_contenders(self.class, self.who.as_deref(), &self.contenders)
    }

    /// What it is, and on which CPUs, in words.
    pub fn on_cpus(&self) -> String {
        // Who is to be looked for on another CPU is not on these.
        let place = if self.because == Some(Because::Elsewhere) {
            ", for activations of CPU"
        } else {
            " on CPU"
        };
        format!("{}{place} {}", self.name(), ranges(&self.cpus))
    }
}

/// As the kernel writes them: 64 numbers would be the whole sentence.
fn ranges(cpus: &[Cpu]) -> String {
    let cpus: CpuList = cpus.iter().copied().collect();
    cpus.to_string().replace(',', ", ")
}

impl RhythmRow {
    /// From when to when it was there, in words; empty: throughout, as far as is
    /// known.
    pub fn spell(&self) -> String {
        let tenths = |time: Nanos| time.as_secs_f64() * 10.0;
        let before = self.none_before_ns.map(|at| tenths(at).floor() / 10.0);
        let after = self.none_after_ns.map(|at| tenths(at).ceil() / 10.0);
        match (before, after) {
            (None, None) => String::new(),
            (Some(before), None) => format!(", none before {before:.1} s"),
            (None, Some(after)) => format!(", none after {after:.1} s"),
            (Some(before), Some(after)) => {
                format!(", none before {before:.1} s and after {after:.1} s")
            }
        }
    }
}

/// A cause of some of these `episodes` in a sentence.
pub fn sentence(row: &CauseRow, episodes: usize) -> String {
    let write = |ns| Unit::Auto.write_nanos(ns);
    format!(
        "{}{}: the largest part of {} of {}, up to {}{} of one; without it the largest seen would be {}.",
        capital(&row.on_cpus()),
        row.rhythm.as_ref().map_or(String::new(), |rhythm| format!(
            ", every {}{} ({} of {} seen)",
            write(rhythm.period_ns),
            rhythm.spell(),
            rhythm.hits,
            rhythm.due
        )),
        row.first_in,
        plural(episodes),
        write(row.largest_ns),
        if row.is_at_least { " or more" } else { "" },
        at_least(row.largest_without_is_at_least, row.largest_without_ns)
    )
}

/// A time that may be a lower limit, in words.
pub fn at_least(is_at_least: bool, time: Nanos) -> String {
    let time = Unit::Auto.write_nanos(time);
    if is_at_least {
        format!("at least {time}")
    } else {
        time
    }
}

fn plural(episodes: usize) -> String {
    match episodes {
        1 => "1 episode".into(),
        more => format!("{} episodes", count(more as u64)),
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

/// The line's name with its CPU.
pub fn place(line: Line) -> String {
    format!(
        "{} on CPU {}",
        line_name(line.service, line.route),
        line.cpu
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cpus_in_a_row_are_told_by_the_first_and_the_last() {
        let many: Vec<Cpu> = (0..64).chain([66]).map(Cpu).collect();

        assert_eq!(ranges(&many), "0-63, 66");
        assert_eq!(ranges(&[Cpu(1)]), "1");
    }
}
