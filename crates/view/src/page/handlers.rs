//! What the kernel ran beside threads, late or not, as the page shows it.

use laggard_answer::why::{HandlerRow, HandlersReport};
use laggard_model::{Cpu, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

/// Sorts that each table has; `laggard why --handlers --all` has all.
const MOST: usize = 20;

/// What the page shows of the handlers that a recording counted.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlersView {
    /// For how long all were counted.
    pub duration_ns: Nanos,
    /// On how many CPUs.
    pub cpus: u64,
    /// What follows from it, in plain words.
    pub sentences: Vec<String>,
    /// Interrupt handlers, softirqs and timers' functions; then work items, where
    /// there are some.
    pub tables: Vec<HandlersTable>,
}

/// The longest of some sorts of handlers.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlersTable {
    /// What they are, in words.
    pub caption: String,
    /// What each of them is, in a word.
    pub what: String,
    /// The longest first.
    pub rows: Vec<HandlerView>,
    /// How many more sorts there are.
    pub more: usize,
    /// The longest of those; absent: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_longest_ns: Option<Nanos>,
}

/// One sort of handler.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlerView {
    /// What ran.
    pub who: String,
    /// How often.
    pub count: u64,
    /// Its share of the time of all CPUs, 0 to 1.
    pub share: f64,
    /// Of 1,000, 999 took at most so long; absent of fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<Nanos>,
    /// The longest.
    pub longest_ns: Nanos,
    /// How long that took at least itself, where the hypervisor may have stretched
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_ns: Option<Nanos>,
    /// Where.
    pub longest_cpu: Cpu,
    /// When it began, since the start of the recording; negative: before.
    pub longest_after_start_s: f64,
}

pub(super) fn handlers(report: &HandlersReport) -> HandlersView {
    let sorts = [
        (
            "Interrupt handlers, softirqs and timers' functions, the longest first",
            "handler",
            &report.handlers,
        ),
        (
            "Work items, with what they slept and waited",
            "work item",
            &report.works,
        ),
    ];
    HandlersView {
        duration_ns: report.duration_ns,
        cpus: report.cpus,
        sentences: report.sentences.clone(),
        tables: sorts
            .into_iter()
            .filter(|(_, _, rows)| !rows.is_empty())
            .map(|(caption, what, rows)| HandlersTable {
                caption: caption.into(),
                what: what.into(),
                rows: rows.iter().take(MOST).map(row).collect(),
                more: rows.len().saturating_sub(MOST),
                more_longest_ns: rows.get(MOST).map(|next| next.longest_ns),
            })
            .collect(),
    }
}

fn row(row: &HandlerRow) -> HandlerView {
    HandlerView {
        who: row.who.clone(),
        count: row.count,
        share: row.share,
        p999_ns: row.p999_ns,
        longest_ns: row.longest_ns,
        own_ns: row.is_stretched().then_some(row.longest_own_ns),
        longest_cpu: row.longest_cpu,
        longest_after_start_s: row.longest_after_start_s,
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::why::{self, RecordedEpisodes};
    use laggard_made::late;
    use laggard_model::EpisodeNotes;

    use super::*;

    #[test]
    fn what_is_left_out_of_a_table_is_no_longer_than_what_is_in_it() {
        let mut counts = late::handlers();
        let one = counts.handlers[0].clone();
        counts.handlers = (0..50)
            .map(|number| {
                let mut one = one.clone();
                one.activity = laggard_model::Activity::Irq(number);
                one.longest_ns = Nanos::from_us(100 + u64::from(number));
                one.longest_own_ns = one.longest_ns;
                one
            })
            .collect();
        let late = RecordedEpisodes {
            path: "r".into(),
            manifest: late::manifest(),
            episodes: Vec::new(),
            notes: EpisodeNotes {
                handlers: Some(counts),
                ..late::notes()
            },
            latest: Vec::new(),
            shortfalls: Vec::new(),
        };

        let shown = handlers(&why::handlers(&late).unwrap());

        let [table] = shown.tables.as_slice() else {
            panic!("{shown:?}");
        };
        assert_eq!((table.rows.len(), table.more), (MOST, 30));
        assert_eq!(table.rows[0].longest_ns, Nanos::from_us(149));
        assert_eq!(table.more_longest_ns, Some(Nanos::from_us(129)));
        assert!(table.rows.iter().all(|row| row.own_ns.is_none()));
    }
}
