//! Texts of the queries, one for each answer.
//!
//! The queries are portable. They use only standard functions, no user-defined function, and no
//! quantile function of an engine. Fractions are DOUBLE literals, and no alias equals the name of a
//! column. `DuckDB` and Spark compute the same results from the catalogue's files.

use std::fmt::Write as _;

/// Quantiles of the reports, with the names of their columns.
pub const SHARES: [(f64, &str); 4] = [
    (0.5, "p50"),
    (0.99, "p99"),
    (0.999, "p999"),
    (0.9999, "p9999"),
];

/// Formats a number as a DOUBLE literal.
pub fn double(value: f64) -> String {
    format!("{value:E}")
}

/// Formats a text as a literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Selection of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Only {
    /// First hour, counted from 1970.
    pub since_h: Option<i32>,
    /// Number of the machine.
    pub host: Option<i64>,
    /// Number of the service and route.
    pub line: Option<i64>,
}

impl Only {
    /// Returns the condition for a table whose hours, or minutes, are in `column`. `per_hour` is
    /// the number of its units in an hour.
    pub fn condition(&self, column: &str, per_hour: i32) -> String {
        let mut text = "1 = 1".to_owned();
        let mut and = |what: &str| {
            // Writing to a String cannot fail.
            let _ = write!(text, " AND {what}");
        };
        if let Some(since) = self.since_h {
            let first = i64::from(since) * i64::from(per_hour);
            and(&format!("{column} >= {first}"));
        }
        if let Some(host) = self.host {
            and(&is("host_id", host));
        }
        if let Some(line) = self.line {
            and(&is("line", line));
        }
        text
    }
}

/// Returns the additional condition that a row belongs to one of these machines; empty without
/// machines.
fn one_of(hosts: &[i64]) -> String {
    match hosts {
        [] => String::new(),
        [one] => format!(" AND {}", is("host_id", *one)),
        several => {
            let numbers: Vec<String> = several.iter().map(i64::to_string).collect();
            format!(" AND host_id IN ({})", numbers.join(", "))
        }
    }
}

/// Returns the condition that a column of non-negative numbers has this value. It does not use `=`:
/// if a plan knows that a column is constant, executors of Ballista 55.0.0 lose the order, and fail
/// with "Expects PARTITION BY expression to be ordered".
fn is(column: &str, value: i64) -> String {
    format!("{column} IN ({value}, -1)")
}

/// Grouping of figures, in addition to service and route.
#[derive(Clone, Debug)]
pub enum By {
    /// Per kernel, build or load: some of these columns of `recordings`.
    Kinds(Vec<&'static str>),
    /// Per machine: these machines, or all if the list is empty.
    Hosts(Vec<i64>),
}

/// Returns the query that identifies the content of a table: the number of rows, and a sum that
/// requires opening each file (row counts are already in the footers).
pub fn fingerprint(table: &str) -> String {
    format!(
        "SELECT COUNT(recording) AS rows_seen, SUM(recording % 1000003) AS sum_seen FROM {table}"
    )
}

/// Returns counts, extremes and quantiles of each group and line. For the share q of the n observed
/// and the lost wakeups, the quantile has the rank r = ceil(q (n + lost)). It lies between `.._low`
/// and `.._high` (docs/method.md 2). The low end is the r-th smallest value if lost wakeups count
/// as zero. The high end is that value if lost and pending wakeups count as later than all others.
pub fn figures(by: &By, only: Only) -> String {
    let keys: Vec<&str> = match by {
        By::Kinds(columns) => columns.clone(),
        By::Hosts(_) => vec!["host_id"],
    };
    let list =
        |prefix: &str| -> String { keys.iter().map(|key| format!("{prefix}{key}, ")).collect() };
    let same = |left: &str, other: &str| -> String {
        let conditions = keys
            .iter()
            .chain(&["line"])
            .map(|key| format!("{left}.{key} = {other}.{key}"));
        conditions.collect::<Vec<_>>().join(" AND ")
    };
    // Per machine no name is needed, and a join of every row would double the time.
    let (table, joined) = match by {
        By::Kinds(_) => ("kinds.", " JOIN kinds ON one.kind = kinds.kind"),
        By::Hosts(_) => ("one.", ""),
    };
    let named = list(table);
    let before = match by {
        By::Kinds(_) => "kind",
        By::Hosts(_) => "host_id",
    };
    let of_hosts = match by {
        By::Hosts(hosts) => one_of(hosts),
        By::Kinds(_) => String::new(),
    };
    let (k, hours) = (list(""), only.condition("at_h", 1) + &of_hosts);
    let last = only.condition("last_h", 1) + &of_hosts;
    let ranks: String = SHARES
        .iter()
        .map(|(q, name)| {
            format!(
                ", CEIL({} * CAST(seen + lost AS DOUBLE)) AS r_{name}",
                double(*q)
            )
        })
        .collect();
    let quantiles: String = SHARES
        .iter()
        .map(|(_, name)| {
            format!(
                ",\n  MIN(CASE WHEN r_{name} - CAST(lost AS DOUBLE) >= 1E0 AND CAST(upto AS DOUBLE) >= r_{name} - CAST(lost AS DOUBLE) THEN up_to_ns END) AS {name}_low,\n  MIN(CASE WHEN CAST(known_upto AS DOUBLE) >= r_{name} THEN up_to_ns END) AS {name}_high"
            )
        })
        .collect();
    format!(
        "WITH kinds AS (
  SELECT kind, MIN(kernel) AS kernel, MIN(build) AS build, MIN(load) AS load
  FROM recordings WHERE refused IS NULL GROUP BY kind),
counted AS (
  SELECT {before}, line, up_to_ns, SUM(n) AS n, SUM(waiting) AS waiting
  FROM histograms WHERE {hours} GROUP BY {before}, line, up_to_ns),
grouped AS (
  SELECT {named}one.line, one.up_to_ns, SUM(one.n) AS n, SUM(one.waiting) AS waiting
  FROM counted one{joined} GROUP BY {named}one.line, one.up_to_ns),
losses AS (
  SELECT {named}one.line, SUM(one.lost) AS lost
  FROM lines one{joined} WHERE {last} GROUP BY {named}one.line),
moments AS (
  SELECT {named}one.line, SUM(one.n) AS samples, SUM(one.missed) AS missed, SUM(one.waiting) AS waited,
    SUM(CAST(one.sum_ns AS DOUBLE)) AS total_ns, MIN(one.min_ns) AS least_ns, MAX(one.max_ns) AS largest_ns,
    COUNT(DISTINCT one.host_id) AS hosts, COUNT(DISTINCT one.recording) AS recordings
  FROM hours one{joined} WHERE {hours} GROUP BY {named}one.line),
running AS (
  SELECT {k}line, up_to_ns,
    SUM(n) OVER (PARTITION BY {k}line ORDER BY up_to_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
    SUM(n - waiting) OVER (PARTITION BY {k}line ORDER BY up_to_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS known_upto,
    SUM(n) OVER (PARTITION BY {k}line) AS seen
  FROM grouped),
ranked AS (
  SELECT running.*, lost{ranks}
  FROM running JOIN losses ON {}),
quantiles AS (
  SELECT {k}line, MAX(lost) AS lost{quantiles}
  FROM ranked GROUP BY {k}line)
SELECT moments.*, quantiles.lost, {}
FROM moments JOIN quantiles ON {}
ORDER BY {}moments.line",
        same("running", "losses"),
        SHARES.map(|(_, name)| format!("{name}_low, {name}_high")).join(", "),
        same("moments", "quantiles"),
        list("moments."),
    )
}

/// Returns each machine's minutes, and the number of minutes with a wakeup later than `limit_ns`.
pub fn late_minutes(limit_ns: i64, only: Only) -> String {
    format!(
        "WITH seen AS (
  SELECT host_id, COUNT(*) AS minutes_seen, SUM(CASE WHEN max_ns > {limit_ns} THEN 1 ELSE 0 END) AS minutes_late,
    MAX(max_ns) AS largest_ns
  FROM minutes WHERE {} GROUP BY host_id),
names AS (SELECT host_id, MIN(host) AS host FROM recordings WHERE refused IS NULL GROUP BY host_id)
SELECT seen.host_id, host, minutes_seen, minutes_late, largest_ns
FROM seen JOIN names ON seen.host_id = names.host_id ORDER BY host",
        only.condition("at_m", 60)
    )
}

/// Returns each recording's minutes and late minutes, with its values of `by`, which are columns of
/// `recordings`.
pub fn late_recordings(limit_ns: i64, by: &[&str], only: Only) -> String {
    let by = by.join(", ");
    format!(
        "WITH seen AS (
  SELECT recording, COUNT(*) AS minutes_seen, SUM(CASE WHEN max_ns > {limit_ns} THEN 1 ELSE 0 END) AS minutes_late
  FROM minutes WHERE {} GROUP BY recording)
SELECT seen.recording, host_id, host, start_s, {by}, minutes_seen, minutes_late
FROM seen JOIN recordings ON seen.recording = recordings.recording ORDER BY host, start_s",
        only.condition("at_m", 60)
    )
}

/// Returns the number of machines that kept late wakeups with their trace data, and the number of
/// late wakeups that were not kept, in recordings that extend into the requested time.
pub fn watched(only: Only) -> String {
    let since = only.since_h.map_or_else(String::new, |since_h| {
        let since_s = i64::from(since_h) * 3_600;
        format!(" AND CAST(start_s AS DOUBLE) + CAST(duration_ns AS DOUBLE) * 1E-9 > {since_s}")
    });
    format!(
        "SELECT COUNT(DISTINCT host_id) AS hosts, SUM(surplus) AS surplus_all FROM recordings WHERE episodes IS NOT NULL{since}"
    )
}

/// Returns the causes over all machines, longest total time first.
pub fn causes(only: Only) -> String {
    let condition = only
        .condition("causes.at_h", 1)
        .replace("host_id IN", "causes.host_id IN");
    format!(
        "WITH spent AS (
  SELECT class, who, causes.host_id, at_h, MIN(host) AS host, MIN(kernel) AS kernel, MAX(kernel) AS kernel_too,
    MAX(CASE WHEN ours THEN 1 ELSE 0 END) AS own,
    SUM(causes.episodes) AS late, SUM(first_in) AS firsts, SUM(CAST(total_ns AS DOUBLE)) AS spent_ns,
    MAX(largest_ns) AS most_ns, MIN(period_ns) AS shortest_period_ns, MAX(period_ns) AS longest_period_ns
  FROM causes JOIN recordings ON causes.recording = recordings.recording
  WHERE {condition} GROUP BY class, who, causes.host_id, at_h)
SELECT class, who, COUNT(DISTINCT host_id) AS hosts, COUNT(*) AS hours, MIN(kernel) AS kernel_first,
  MAX(kernel_too) AS kernel_last, MAX(own) AS is_own, SUM(late) AS late_all, SUM(firsts) AS first_all,
  SUM(spent_ns) AS total_all_ns, MAX(most_ns) AS largest_ns, MIN(shortest_period_ns) AS period_from_ns,
  MAX(longest_period_ns) AS period_to_ns, MIN(host) AS first_host
FROM spent GROUP BY class, who ORDER BY total_all_ns DESC, class, who"
    )
}

/// Returns the causes with the most time in late wakeups, at most `most` per machine, for these
/// machines (for all if the list is empty).
pub fn main_causes(hosts: &[i64], most: usize, only: Only) -> String {
    format!(
        "WITH spent AS (
  SELECT host_id, class, who, SUM(CAST(total_ns AS DOUBLE)) AS spent_ns, SUM(episodes) AS late_all,
    MAX(largest_ns) AS most_ns
  FROM causes WHERE {}{} GROUP BY host_id, class, who),
placed AS (
  SELECT host_id, class, who, spent_ns, late_all, most_ns,
    ROW_NUMBER() OVER (PARTITION BY host_id ORDER BY spent_ns DESC, class, who) AS place,
    SUM(spent_ns) OVER (PARTITION BY host_id) AS all_ns
  FROM spent)
SELECT host_id, class, who, spent_ns / all_ns AS share, late_all, most_ns FROM placed WHERE place <= {most}",
        only.condition("at_h", 1),
        one_of(hosts)
    )
}

/// Returns the minutes of each of these machines per hour (`first_m`: its first minute since 1970),
/// and the number of minutes with a wakeup later than `limit_ns`.
pub fn late_hours(limit_ns: i64, hosts: &[i64], only: Only) -> String {
    format!(
        "SELECT host_id, at_m - at_m % 60 AS first_m, COUNT(*) AS minutes_seen,
  SUM(CASE WHEN max_ns > {limit_ns} THEN 1 ELSE 0 END) AS minutes_late, MAX(max_ns) AS largest_ns
FROM minutes WHERE {}{} GROUP BY host_id, at_m - at_m % 60 ORDER BY host_id, first_m",
        only.condition("at_m", 60),
        one_of(hosts)
    )
}

/// Returns the numbers of the machines with these names, and their kernels in the order of their
/// first use.
pub fn kernels_of(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| literal(name)).collect();
    format!(
        "SELECT host_id, host, kernel, MIN(start_s) AS since_s FROM recordings
WHERE refused IS NULL AND host IN ({}) GROUP BY host_id, host, kernel ORDER BY host_id, since_s, kernel",
        names.join(", ")
    )
}

/// Returns the hours of a machine with the latency of the worst wakeup of each.
pub fn hours_of(only: Only) -> String {
    format!(
        "SELECT at_h, SUM(n) AS samples, SUM(missed) AS missed_all, MAX(max_ns) AS largest_ns
FROM hours WHERE {} GROUP BY at_h ORDER BY largest_ns DESC, at_h",
        only.condition("at_h", 1)
    )
}

/// Settings of each machine in its last recording.
pub const SETTINGS_NOW: &str = "WITH placed AS (
  SELECT recording, host_id, ROW_NUMBER() OVER (PARTITION BY host_id ORDER BY start_s DESC, recording) AS place
  FROM recordings WHERE refused IS NULL)
SELECT placed.host_id, name, value
FROM placed JOIN settings ON placed.recording = settings.recording WHERE place = 1";
