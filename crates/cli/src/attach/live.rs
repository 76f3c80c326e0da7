//! What comes, line by line, while threads are watched: `attach --every`.

use laggard_answer::attach::{AttachChosen, AttachStep, AttachTaken, Attended};
use laggard_model::text::{Unit, count};
use laggard_model::{Nanos, printable, printable_lines};

use crate::pipe;

/// So many that took time of a late activation are told.
const MOST_TAKERS: usize = 3;

/// Shows what came to who looks on.
#[derive(Debug)]
pub(super) struct AttachLive {
    every: Nanos,
    from: Nanos,
    next: Nanos,
    /// Lines that are not shown yet.
    text: String,
    /// Late activations that nobody looked at since the last lines.
    left_out: u64,
}

impl AttachLive {
    /// What came so often since `from`.
    pub(super) fn new(every: Nanos, from: Nanos) -> Self {
        let text = format!(
            "{:>11}  {:<22} {:<10} {:>9} {:>9} {:>9} {:>9}  {:>14} {:>7}\n",
            "time",
            "thread",
            "woken by",
            "count",
            "p50",
            "p99",
            "largest",
            "largest so far",
            "missed"
        );
        Self {
            every,
            from,
            next: from + every,
            text,
            left_out: 0,
        }
    }

    /// An activation that missed its deadline, and to whom its time went.
    pub(super) fn late(&mut self, one: &AttachChosen, taken: &[AttachTaken]) {
        let activation = one.activation();
        let write = |time: Nanos| Unit::Auto.write_nanos(time);
        let parts = taken.iter().take(MOST_TAKERS);
        let mut parts: Vec<String> = parts
            .map(|part| {
                format!(
                    "{} {}",
                    write(part.time_ns),
                    printable(&part.what.to_string())
                )
            })
            .collect();
        let left = taken.iter().skip(MOST_TAKERS);
        let left = left.fold(Nanos::ZERO, |sum, part| sum + part.time_ns);
        if left > Nanos::ZERO {
            parts.push(format!("{} others", write(left)));
        }
        let why = match parts.is_empty() {
            true => String::new(),
            false => format!(": {}", parts.join("; ")),
        };
        self.text += &format!(
            "{:>9.3} s  late: {}/{} by {}, {}{why}\n",
            self.after(activation.origin),
            printable(&one.thread().name.to_string()),
            one.thread().tid.0,
            one.way(),
            write(activation.response()),
        );
    }

    /// One that missed its deadline and that nobody looked at.
    pub(super) const fn left_out(&mut self) {
        self.left_out += 1;
    }

    /// Shows what came, where it is time for that; whether anybody still reads it.
    pub(super) fn show(&mut self, seen: &mut Attended, now: Nanos) -> anyhow::Result<bool> {
        if now >= self.next {
            while self.next <= now {
                self.next += self.every;
            }
            if self.left_out > 0 {
                self.text += &format!(
                    "{:>9.1} s  late: {} more\n",
                    self.after(now),
                    count(std::mem::take(&mut self.left_out))
                );
            }
            for step in seen.step() {
                self.text += &self.line(&step, now);
            }
        }
        match self.text.is_empty() {
            true => Ok(true),
            false => pipe::try_print(&printable_lines(&std::mem::take(&mut self.text)).to_string()),
        }
    }

    fn line(&self, step: &AttachStep, now: Nanos) -> String {
        let time = |time: Option<Nanos>| {
            time.map_or_else(|| "-".into(), |time| Unit::Auto.write_nanos(time))
        };
        format!(
            "{:>9.1} s  {:<22} {:<10} {:>9} {:>9} {:>9} {:>9}  {:>14} {:>7}\n",
            self.after(now),
            format!(
                "{}/{}",
                printable(&step.thread.name.to_string()),
                step.thread.tid.0
            ),
            step.way.to_string(),
            count(step.activations),
            time(step.median),
            time(step.p99),
            time(step.largest),
            time(step.largest_so_far),
            step.misses.map_or_else(|| "-".into(), count)
        )
    }

    /// Seconds since watching began.
    fn after(&self, at: Nanos) -> f64 {
        at.saturating_sub(self.from).as_secs_f64()
    }
}
