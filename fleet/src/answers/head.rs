//! Recordings behind a report: recordings of the store, and recordings that could not be read.

use laggard_model::printable;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Engine;
use crate::since;

/// Maximum number of names in text. JSON has all names.
const MAX_NAMES: usize = 5;

/// Recordings behind a report.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StoreView {
    /// Path of the store.
    pub store: String,
    /// First hour of the report, UTC, RFC 3339; absent if the report covers all time. The counts
    /// here always cover all time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Number of recordings that could be read.
    pub recordings: u64,
    /// Number of machines.
    pub hosts: u64,
    /// Recordings that could not be read. No report includes them.
    pub refused: Vec<RefusedRecording>,
    /// Partly damaged recordings. The report includes their undamaged parts.
    pub damaged: Vec<DoubtedRecording>,
    /// Recordings with untrustworthy figures. The report includes them.
    pub untrustworthy: Vec<DoubtedRecording>,
    /// Number of recordings of a script instead of a machine.
    pub scripted: u64,
    /// Host names with simultaneous recordings. Either several machines share the name and count as
    /// one machine, or some time was counted twice.
    pub overlapping: Vec<String>,
}

/// Recording that could not be read.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RefusedRecording {
    /// Path of the recording.
    pub path: String,
    /// `newer`, `unreadable`, `no_histograms` or `twice`.
    pub because: String,
    /// Reason in words.
    pub reason: String,
}

/// Recording with a problem.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DoubtedRecording {
    /// Path of the recording.
    pub path: String,
    /// Problem in words.
    pub why: String,
}

/// Counts, and all recordings with a problem.
const TEXT: &str = "SELECT path, because, refused, shortfalls, distrust, ended FROM recordings
WHERE refused IS NOT NULL OR shortfalls IS NOT NULL OR distrust IS NOT NULL ORDER BY path";
const COUNTS: &str = "SELECT COUNT(*) AS recordings_read, COUNT(DISTINCT host_id) AS hosts,
  SUM(CASE WHEN scripted THEN 1 ELSE 0 END) AS scripted_all FROM recordings WHERE refused IS NULL";

/// Start times have a resolution of one second, and a recording may start when the previous one
/// ends.
const OVERLAPPING: &str = "WITH following AS (
  SELECT host, CAST(start_s AS DOUBLE) + CAST(duration_ns AS DOUBLE) * 1E-9 AS end_s,
    LEAD(start_s) OVER (PARTITION BY host_id ORDER BY start_s, recording) AS next_s
  FROM recordings WHERE refused IS NULL AND start_s IS NOT NULL)
SELECT DISTINCT host FROM following WHERE CAST(next_s AS DOUBLE) + 2E0 < end_s ORDER BY host";

impl StoreView {
    /// Reads the state of a store. `refused` are its directories that could not be examined.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn read(
        engine: &Engine,
        store: String,
        refused: &[(String, String)],
        since_h: Option<i32>,
    ) -> anyhow::Result<Self> {
        let counts = engine.query(COUNTS)?;
        let count = |name: &str| -> anyhow::Result<u64> {
            let count = counts.whole(name)?.first().copied().flatten();
            Ok(count.unwrap_or_default().unsigned_abs())
        };
        let rows = engine.query(TEXT)?;
        let (path, because, why) = (
            rows.text("path")?,
            rows.text("because")?,
            rows.text("refused")?,
        );
        let (missing, distrust) = (rows.text("shortfalls")?, rows.text("distrust")?);
        let folder = |(path, reason): &(String, String)| RefusedRecording {
            path: path.clone(),
            because: "unreadable".into(),
            reason: reason.clone(),
        };
        let mut view = Self {
            store,
            since: since_h.map(since::format_hour),
            recordings: count("recordings_read")?,
            hosts: count("hosts")?,
            refused: refused.iter().map(folder).collect(),
            damaged: Vec::new(),
            untrustworthy: Vec::new(),
            scripted: count("scripted_all")?,
            overlapping: engine
                .query(OVERLAPPING)?
                .text("host")?
                .into_iter()
                .flatten()
                .collect(),
        };
        for row in 0..rows.len() {
            let path = path[row].clone().unwrap_or_default();
            let doubted = |why: &Option<String>| {
                why.clone().map(|why| DoubtedRecording {
                    path: path.clone(),
                    why,
                })
            };
            if let Some(reason) = why[row].clone() {
                let because = because[row].clone().unwrap_or_default();
                view.refused.push(RefusedRecording {
                    path,
                    because,
                    reason,
                });
                continue;
            }
            view.damaged.extend(doubted(&missing[row]));
            view.untrustworthy.extend(doubted(&distrust[row]));
        }
        Ok(view)
    }

    /// Returns true if the report includes every recording completely.
    pub const fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.damaged.is_empty()
    }

    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} of {}",
            of(self.recordings, "recording"),
            of(self.hosts, "machine")
        );
        if self.scripted > 0 {
            text += &format!(", {} of a script, not of a machine", self.scripted);
        }
        if let Some(since) = &self.since {
            text += &format!("; only measurements from {since} or later");
        }
        text += "\n";
        let refused = self
            .refused
            .iter()
            .map(|recording| (&recording.path, &recording.reason));
        text += &named("NOT READ, and in no figure", refused.collect());
        let doubted = |recordings: &'_ [DoubtedRecording], what: &str| {
            named(
                what,
                recordings
                    .iter()
                    .map(|recording| (&recording.path, &recording.why))
                    .collect(),
            )
        };
        text += &doubted(&self.damaged, "Incomplete; the rest is in the figures");
        text += &doubted(&self.untrustworthy, "NOT TRUSTWORTHY; in the figures");
        if !self.overlapping.is_empty() {
            let names = self.overlapping.iter().take(MAX_NAMES);
            let names: Vec<String> = names.map(|name| printable(name).to_string()).collect();
            let more = match self.overlapping.len().saturating_sub(MAX_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more (--json)"),
            };
            text += &format!(
                "Recorded twice at the same time, by one machine or several of one name: {}{more}\n",
                names.join(", ")
            );
        }
        text
    }
}

fn named(what: &str, pairs: Vec<(&String, &String)>) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut text = format!("{what}: {}\n", pairs.len());
    for (path, why) in pairs.iter().take(MAX_NAMES) {
        text += &format!("  {}: {}\n", printable(path), printable(why));
    }
    if pairs.len() > MAX_NAMES {
        text += &format!("  and {} more: --json\n", pairs.len() - MAX_NAMES);
    }
    text
}

/// Formats a count with its noun.
pub(crate) fn of(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        more => format!("{} {what}s", laggard_model::text::count(more)),
    }
}
