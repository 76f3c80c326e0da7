//! What an answer is of: the recordings of a store, and those that are not in it.

use laggard_model::printable;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Engine;
use crate::since;

/// So many are named in text; JSON names all.
const NAMED: usize = 5;

/// What an answer is of.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StoreView {
    /// The store's folder.
    pub store: String,
    /// The answer is only of hours from this one on, UTC, RFC 3339; absent: of
    /// all. What is counted here is of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Recordings that could be read.
    pub recordings: u64,
    /// Machines that they are of.
    pub hosts: u64,
    /// Recordings that could not be read, and are in no answer.
    pub refused: Vec<RefusedRecording>,
    /// Recordings that are damaged in part: the rest of them is in the answer.
    pub damaged: Vec<DoubtedRecording>,
    /// Recordings whose figures cannot be trusted; they are in the answer.
    pub untrustworthy: Vec<DoubtedRecording>,
    /// How many are of a script instead of a machine.
    pub scripted: u64,
    /// Names under which recordings were made at the same time: several machines
    /// have it, and are taken for one, or what one did is counted twice.
    pub overlapping: Vec<String>,
}

/// A recording that could not be read.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RefusedRecording {
    /// Its folder.
    pub path: String,
    /// `newer`, `unreadable`, `no_histograms` or `twice`.
    pub because: String,
    /// The reason in words.
    pub reason: String,
}

/// A recording with something against it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DoubtedRecording {
    /// Its folder.
    pub path: String,
    /// What, in words.
    pub why: String,
}

/// Counts, and every recording that something is to be said of.
const TEXT: &str = "SELECT path, because, refused, shortfalls, distrust, ended FROM recordings
WHERE refused IS NOT NULL OR shortfalls IS NOT NULL OR distrust IS NOT NULL ORDER BY path";
const COUNTS: &str = "SELECT COUNT(*) AS recordings_read, COUNT(DISTINCT host_id) AS hosts,
  SUM(CASE WHEN scripted THEN 1 ELSE 0 END) AS scripted_all FROM recordings WHERE refused IS NULL";

/// Starts are known to the second, and one recording may begin as another ends.
const OVERLAPPING: &str = "WITH following AS (
  SELECT host, CAST(start_s AS DOUBLE) + CAST(duration_ns AS DOUBLE) * 1E-9 AS end_s,
    LEAD(start_s) OVER (PARTITION BY host_id ORDER BY start_s, recording) AS next_s
  FROM recordings WHERE refused IS NULL AND start_s IS NOT NULL)
SELECT DISTINCT host FROM following WHERE CAST(next_s AS DOUBLE) + 2E0 < end_s ORDER BY host";

impl StoreView {
    /// Of a store; `refused` are its folders that could not be looked into.
    ///
    /// # Errors
    /// When the catalogue cannot be read.
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
            since: since_h.map(since::told),
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

    /// Whether every recording is in the answer, whole.
    pub const fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.damaged.is_empty()
    }

    /// In words.
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
            text += &format!("; of them, what was measured from {since} on");
        }
        text += "\n";
        let refused = self.refused.iter().map(|one| (&one.path, &one.reason));
        text += &named("NOT READ, and in no figure", refused.collect());
        let doubted = |all: &'_ [DoubtedRecording], what: &str| {
            named(what, all.iter().map(|one| (&one.path, &one.why)).collect())
        };
        text += &doubted(&self.damaged, "Incomplete; the rest is in the figures");
        text += &doubted(&self.untrustworthy, "NOT TRUSTWORTHY; in the figures");
        if !self.overlapping.is_empty() {
            let names = self.overlapping.iter().take(NAMED);
            let names: Vec<String> = names.map(|one| printable(one).to_string()).collect();
            let more = match self.overlapping.len().saturating_sub(NAMED) {
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

fn named(what: &str, all: Vec<(&String, &String)>) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("{what}: {}\n", all.len());
    for (path, why) in all.iter().take(NAMED) {
        text += &format!("  {}: {}\n", printable(path), printable(why));
    }
    if all.len() > NAMED {
        text += &format!("  and {} more: --json\n", all.len() - NAMED);
    }
    text
}

/// So many of them, in words.
pub(crate) fn of(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        more => format!("{} {what}s", laggard_model::text::count(more)),
    }
}
