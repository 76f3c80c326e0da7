//! `changed`: machines that are late more often since a change.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use laggard_analyze::compare::{Comparison, RecordingCount, compare_recordings};
use laggard_model::Nanos;
use laggard_model::text::{Unit, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::{FLEET_SCHEMA, StoreView, table};
use crate::engine::Engine;
use crate::sql::{self, Only};
use crate::statistics::{benjamini_hochberg, fisher};

/// Minimum number of recordings before and after the change, to distinguish it from random
/// variation (docs/how-to/before-after.md).
const MIN_RECORDINGS: usize = 4;
/// Maximum expected share of false discoveries among the machines reported as changed.
const FALSE_SHARE: f64 = 0.05;
/// Ratios between the inverse of this and this count as equal. See docs/how-to/before-after.md for
/// the reason.
const MAX_EQUAL_RATIO: f64 = 1.25;
const CONFIDENCE: f64 = 0.95;

/// Parameters of the question.
#[derive(Clone, Debug)]
pub struct ChangedAsked {
    /// Number and name of the service.
    pub line: (i64, String),
    /// A minute is late if a wakeup in it was later than this.
    pub limit: Nanos,
    /// Changed settings: columns of `recordings`.
    pub by: Vec<&'static str>,
    /// Maximum number of listed machines, and of listed settings.
    pub top: usize,
    /// Selected rows.
    pub only: Only,
}

/// Machines and settings whose latency changed between two times.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ChangedReport {
    /// Version of this layout.
    pub schema: u32,
    /// Recordings behind the report.
    pub of: StoreView,
    /// Measured service.
    pub service: String,
    /// A minute is late if a wakeup in it was later than this.
    pub limit_ns: Nanos,
    /// Changed settings.
    pub by: Vec<String>,
    /// Number of machines with recordings before and after the change.
    pub compared: u64,
    /// Number of machines with recordings before and after the change, but fewer than four of
    /// either.
    pub too_few: u64,
    /// Number of machines with recordings of only one value.
    pub unchanged: u64,
    /// Machines that are late more often, clearest change first.
    pub worse: Vec<HostChange>,
    /// Machines that are late less often.
    pub better: Vec<HostChange>,
    /// Number of machines without a significant change.
    pub undecided: u64,
    /// Maximum expected share of false discoveries among the machines listed as worse or better.
    pub false_share: f64,
    /// Settings whose frequency differs between the worse machines and the others, clearest
    /// difference first.
    pub settings: Vec<SettingShare>,
}

/// Effect of the change on a machine.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HostChange {
    /// Name of the machine.
    pub host: String,
    /// Values before the change, in the order of `by`.
    pub before: Vec<String>,
    /// Values after the change.
    pub after: Vec<String>,
    /// Late minutes per hour before the change.
    pub before_per_hour: f64,
    /// Late minutes per hour after the change.
    pub after_per_hour: f64,
    /// Ratio of the rate after to the rate before; absent if late minutes before are missing.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    pub ratio_low: f64,
    /// Upper end of the interval; absent if unbounded.
    pub ratio_high: Option<f64>,
    /// p-value of equal rates, adjusted for the number of machines.
    pub q: f64,
}

/// Setting, and the number of machines that have it after the change.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SettingShare {
    /// Name of the setting.
    pub name: String,
    /// Value of the setting.
    pub value: String,
    /// Number of worse machines with the setting.
    pub worse_with: u64,
    /// Number of worse machines.
    pub worse: u64,
    /// Number of other machines with the setting.
    pub others_with: u64,
    /// Number of other machines.
    pub others: u64,
    /// p-value of an equally uneven distribution, adjusted for the number of settings.
    pub q: f64,
}

/// Recording of a machine.
struct DatedCount {
    start_s: i64,
    group: Vec<String>,
    count: RecordingCount,
}

/// Machine with enough recordings before and after.
struct ComparedMachine {
    id: i64,
    change: HostChange,
    comparison: Comparison,
}

/// Compares each machine before and after the change.
///
/// # Errors
/// If a query fails, or if a number of the catalogue is out of range.
pub fn changed(
    engine: &Engine,
    of: StoreView,
    asked: ChangedAsked,
) -> anyhow::Result<ChangedReport> {
    let (mut compared_machines, mut too_few, mut unchanged) = (Vec::new(), 0, 0);
    for ((id, host), recordings) in read(engine, &asked)? {
        let Some((before, after)) = sides(&recordings) else {
            unchanged += 1;
            continue;
        };
        if before.len().min(after.len()) < MIN_RECORDINGS {
            too_few += 1;
            continue;
        }
        compared_machines.push(compare(id, host, &before, &after)?);
    }
    let p: Vec<f64> = compared_machines
        .iter()
        .map(|machine| machine.comparison.ratio.p)
        .collect();
    for (machine, q) in compared_machines.iter_mut().zip(benjamini_hochberg(&p)) {
        machine.change.q = q;
    }
    let compared = compared_machines.len() as u64;
    compared_machines.sort_by(|machine, other| {
        machine
            .change
            .q
            .total_cmp(&other.change.q)
            .then_with(|| machine.change.host.cmp(&other.change.host))
    });
    let is_more =
        |machine: &ComparedMachine| machine.change.after_per_hour > machine.change.before_per_hour;
    let (clear, rest): (Vec<ComparedMachine>, Vec<ComparedMachine>) = compared_machines
        .into_iter()
        .partition(|machine| machine.change.q <= FALSE_SHARE);
    let undecided = rest.len() as u64;
    let (worse, better): (Vec<ComparedMachine>, Vec<ComparedMachine>) =
        clear.into_iter().partition(is_more);
    let worse_ids: BTreeSet<i64> = worse.iter().map(|machine| machine.id).collect();
    let other_ids: BTreeSet<i64> = better
        .iter()
        .chain(&rest)
        .map(|machine| machine.id)
        .collect();
    let mut settings = settings(engine, &worse_ids, &other_ids)?;
    settings.truncate(asked.top);
    let changes = |compared_machines: Vec<ComparedMachine>| {
        compared_machines
            .into_iter()
            .map(|machine| machine.change)
            .collect()
    };
    Ok(ChangedReport {
        schema: FLEET_SCHEMA,
        of,
        service: asked.line.1,
        limit_ns: asked.limit,
        by: asked.by.iter().map(|by| (*by).to_owned()).collect(),
        compared,
        too_few,
        unchanged,
        worse: changes(worse),
        better: changes(better),
        undecided,
        false_share: FALSE_SHARE,
        settings,
    })
}

/// Reads the recordings of each machine.
fn read(
    engine: &Engine,
    asked: &ChangedAsked,
) -> anyhow::Result<BTreeMap<(i64, String), Vec<DatedCount>>> {
    let only = Only {
        line: Some(asked.line.0),
        ..asked.only
    };
    let limit = i64::try_from(asked.limit.ns()).unwrap_or(i64::MAX);
    let rows = engine.query(&sql::late_recordings(limit, &asked.by, only))?;
    let (id, host, start) = (
        rows.whole("host_id")?,
        rows.text("host")?,
        rows.whole("start_s")?,
    );
    let (minutes, late) = (rows.number("minutes_seen")?, rows.number("minutes_late")?);
    let mut by = Vec::new();
    for name in &asked.by {
        by.push(rows.text(name)?);
    }
    let mut hosts: BTreeMap<(i64, String), Vec<DatedCount>> = BTreeMap::new();
    for row in 0..rows.len() {
        // Without a start time it is neither before nor after.
        let (Some(id), Some(start_s)) = (id[row], start[row]) else {
            continue;
        };
        let count = RecordingCount {
            events: late[row].unwrap_or_default(),
            dispersion: 1.0,
            exposure: minutes[row].unwrap_or_default(),
        };
        let group = by
            .iter()
            .map(|column| column[row].clone().unwrap_or_default())
            .collect();
        let place = (id, host[row].clone().unwrap_or_default());
        hosts.entry(place).or_default().push(DatedCount {
            start_s,
            group,
            count,
        });
    }
    Ok(hosts)
}

/// Splits the recordings by the previous and the present value. `None` if the value never changed.
fn sides(recordings: &[DatedCount]) -> Option<(Vec<&DatedCount>, Vec<&DatedCount>)> {
    let last = recordings
        .iter()
        .max_by_key(|recording| recording.start_s)?;
    let others = recordings
        .iter()
        .filter(|recording| recording.group != last.group);
    let before = others.max_by_key(|recording| recording.start_s)?;
    let with_group = |group: &[String]| {
        recordings
            .iter()
            .filter(|recording| recording.group == group)
            .collect()
    };
    Some((with_group(&before.group), with_group(&last.group)))
}

fn compare(
    id: i64,
    host: String,
    before: &[&DatedCount],
    after: &[&DatedCount],
) -> anyhow::Result<ComparedMachine> {
    let counts = |side: &[&DatedCount]| -> Vec<RecordingCount> {
        side.iter().map(|recording| recording.count).collect()
    };
    let [first, second] = [before, after].map(counts);
    let sets = compare_recordings(&first, &second, MAX_EQUAL_RATIO, CONFIDENCE)
        .with_context(|| format!("cannot compare the recordings of `{host}`"))?;
    let rate = |side: &[RecordingCount]| {
        let sum = |value: fn(&RecordingCount) -> f64| side.iter().map(value).sum::<f64>();
        sum(|recording| recording.events) / sum(|recording| recording.exposure) * 60.0
    };
    let group = |side: &[&DatedCount]| {
        side.first()
            .map(|recording| recording.group.clone())
            .unwrap_or_default()
    };
    let ratio = sets.comparison.ratio;
    let change = HostChange {
        host,
        before: group(before),
        after: group(after),
        before_per_hour: rate(&first),
        after_per_hour: rate(&second),
        ratio: ratio.ratio,
        ratio_low: ratio.interval.low,
        ratio_high: Some(ratio.interval.high).filter(|high| high.is_finite()),
        q: ratio.p,
    };
    Ok(ComparedMachine {
        id,
        change,
        comparison: sets.comparison,
    })
}

/// Finds settings that distinguish the worse machines from the others.
fn settings(
    engine: &Engine,
    worse: &BTreeSet<i64>,
    others: &BTreeSet<i64>,
) -> anyhow::Result<Vec<SettingShare>> {
    if worse.is_empty() || others.is_empty() {
        return Ok(Vec::new());
    }
    let rows = engine.query(sql::SETTINGS_NOW)?;
    let (id, name, value) = (
        rows.whole("host_id")?,
        rows.text("name")?,
        rows.text("value")?,
    );
    let mut have: BTreeMap<(String, String), BTreeSet<i64>> = BTreeMap::new();
    for row in 0..rows.len() {
        let (Some(id), Some(name), Some(value)) = (id[row], &name[row], &value[row]) else {
            continue;
        };
        if worse.contains(&id) || others.contains(&id) {
            have.entry((name.clone(), value.clone()))
                .or_default()
                .insert(id);
        }
    }
    let machines = worse.len() + others.len();
    let mut shares: Vec<SettingShare> = have
        .into_iter()
        // A setting that all machines have, or only one, is not informative.
        .filter(|(_, hosts)| hosts.len() > 1 && hosts.len() < machines)
        .map(|((name, value), hosts)| {
            let count_with =
                |side: &BTreeSet<i64>| (hosts.intersection(side).count() as u64, side.len() as u64);
            let ((worse_with, worse), (others_with, others)) =
                (count_with(worse), count_with(others));
            let with = worse_with + others_with;
            SettingShare {
                name,
                value,
                worse_with,
                worse,
                others_with,
                others,
                q: fisher(
                    (worse_with, with),
                    (worse - worse_with, worse + others - with),
                ),
            }
        })
        .collect();
    let p: Vec<f64> = shares.iter().map(|share| share.q).collect();
    for (share, q) in shares.iter_mut().zip(benjamini_hochberg(&p)) {
        share.q = q;
    }
    shares.retain(|share| share.q <= FALSE_SHARE);
    shares.sort_by(|share, other| {
        share
            .q
            .total_cmp(&other.q)
            .then_with(|| share.name.cmp(&other.name))
    });
    Ok(shares)
}

impl ChangedReport {
    /// Formats the report as text, with the first `top` machines of each side.
    pub fn text(&self, top: usize) -> String {
        let mut text = self.of.text();
        text += &format!(
            "{}: minutes with a latency above {}, before and after a change of {}.\n",
            self.service,
            Unit::Auto.write_nanos(self.limit_ns),
            self.by.join(" or ")
        );
        if self.compared + self.too_few + self.unchanged == 0 {
            return text + "Nothing was measured in that time.\n";
        }
        text += &format!(
            "{} compared: {} late more often, {} late less often, {} inconclusive.\n",
            super::head::of(self.compared, "machine"),
            count(self.worse.len() as u64),
            count(self.better.len() as u64),
            count(self.undecided)
        );
        text += &format!(
            "At most {:.0} % of the machines listed as changed are expected to be false positives.\n",
            self.false_share * 100.0
        );
        if self.too_few > 0 {
            text += &format!(
                "{} more not compared: fewer than {MIN_RECORDINGS} recordings before or after the change.\n",
                count(self.too_few)
            );
        }
        if self.unchanged > 0 {
            text += &format!("{} more did not change.\n", count(self.unchanged));
        }
        for (what, side) in [
            ("Late more often", &self.worse),
            ("Late less often", &self.better),
        ] {
            if side.is_empty() {
                continue;
            }
            let rows: Vec<Vec<String>> = side.iter().take(top).map(row).collect();
            text += &format!("\n{what}\n");
            text += &table(
                &["", "before", "after", "late/hour", "since", "ratio", "q"],
                3,
                &rows,
            );
            if side.len() > top {
                text += &format!("{} more: --top, --json\n", count((side.len() - top) as u64));
            }
        }
        if !self.settings.is_empty() {
            text += "\nSettings that distinguish the machines that are late more often\n";
            let rows: Vec<Vec<String>> = self.settings.iter().map(setting).collect();
            text += &table(&["", "more often", "others", "q"], 1, &rows);
        } else if !self.worse.is_empty() {
            text += "\nNo setting distinguishes the machines that are late more often.\n";
        }
        text
    }
}

fn row(change: &HostChange) -> Vec<String> {
    let times = |ratio: f64| {
        if ratio >= 10.0 {
            format!("{ratio:.0}")
        } else {
            format!("{ratio:.2}")
        }
    };
    let high = change.ratio_high.map_or("no limit".into(), times);
    let interval = format!("[{}, {high}]", times(change.ratio_low));
    vec![
        change.host.clone(),
        change.before.join(", "),
        change.after.join(", "),
        super::worst::per_hour(change.before_per_hour),
        super::worst::per_hour(change.after_per_hour),
        change.ratio.map_or_else(
            || interval.clone(),
            |ratio| format!("{} {interval}", times(ratio)),
        ),
        format!("{:.0e}", change.q),
    ]
}

fn setting(share: &SettingShare) -> Vec<String> {
    vec![
        format!("{} = {}", share.name, share.value),
        format!("{} of {}", share.worse_with, share.worse),
        format!("{} of {}", share.others_with, share.others),
        format!("{:.0e}", share.q),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SplitMix64` (Steele et al. 2014), from 0 to 1.
    struct Random(u64);

    impl Random {
        fn share(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// One-hour recordings of 200 machines: 12 before the change and 12 after it. The probability
    /// of a late minute is between 1 in 500 and 1 in 10 per machine, and varies between hours by a
    /// factor of up to `spread`. After the change it is 6 times as high on the first `faulty`
    /// machines. Returns the machines reported as changed.
    fn called(seed: u64, faulty: usize, spread: f64) -> Vec<usize> {
        let mut random = Random(seed);
        let mut hour = |chance: f64, group: &str, start_s: i64| {
            let by = spread.powf(2.0 * random.share() - 1.0);
            let late = (0..60).filter(|_| random.share() < chance * by).count();
            DatedCount {
                start_s,
                group: vec![group.to_owned()],
                count: RecordingCount {
                    events: late as f64,
                    dispersion: 1.0,
                    exposure: 60.0,
                },
            }
        };
        let compared: Vec<ComparedMachine> = (0..200)
            .map(|host| {
                let chance = 0.002 * 50_f64.powf(Random(host as u64).share());
                let times = if host < faulty { 6.0 } else { 1.0 };
                let mut recordings: Vec<DatedCount> = (0..12)
                    .map(|hour_start| hour(chance, "old", hour_start))
                    .collect();
                recordings
                    .extend((12..24).map(|hour_start| hour(chance * times, "new", hour_start)));
                let (before, after) = sides(&recordings).unwrap();
                compare(host as i64, String::new(), &before, &after).unwrap()
            })
            .collect();
        let p: Vec<f64> = compared
            .iter()
            .map(|machine| machine.comparison.ratio.p)
            .collect();
        let q = benjamini_hochberg(&p);
        (0..200).filter(|host| q[*host] <= FALSE_SHARE).collect()
    }

    #[test]
    fn without_changes_almost_no_machine_is_reported() {
        for spread in [1.0, 3.0] {
            let wrong: Vec<usize> = (1..=20)
                .map(|seed| called(seed * 1_000, 0, spread).len())
                .collect();

            let runs = wrong.iter().filter(|count| **count > 0).count();
            // At most one run of 20 is expected to have a false discovery. 5 or more occur with a
            // probability of 1 in 400.
            assert!(runs < 5, "with a spread of {spread}: {wrong:?}");
        }
    }

    #[test]
    fn three_changed_machines_of_200_are_found_with_few_others() {
        let (mut found, mut others) = (0, 0);
        for seed in 1..=20 {
            let changed = called(seed * 1_000, 3, 1.5);
            found += changed.iter().filter(|host| **host < 3).count();
            others += changed.iter().filter(|host| **host >= 3).count();
        }

        assert!(found >= 50, "{found} of 60, and {others} others");
        assert!(others <= 8, "{found} of 60, and {others} others");
    }
}
