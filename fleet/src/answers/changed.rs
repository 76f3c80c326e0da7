//! `changed`: which machines are late more often since something was changed.

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

/// So many recordings of each side it takes to tell a change from what changes by
/// itself (docs/how-to/before-after.md).
const LEAST: usize = 4;
/// Of the machines that are called changed no more than this share is expected to
/// be called so by chance.
const FALSE_SHARE: f64 = 0.05;
/// Ratios from 1 over this to this count as equal; docs/how-to/before-after.md has why.
const EQUAL: f64 = 1.25;
const CONFIDENCE: f64 = 0.95;

/// What is asked.
#[derive(Clone, Debug)]
pub struct ChangedAsked {
    /// The service's number and name.
    pub line: (i64, String),
    /// A minute is late when an activation in it was later than this.
    pub limit: Nanos,
    /// What was changed: columns of `recordings`.
    pub by: Vec<&'static str>,
    /// How many machines and settings are listed.
    pub top: usize,
    /// Which rows.
    pub only: Only,
}

/// What `changed` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ChangedReport {
    /// The version of this layout.
    pub schema: u32,
    /// What it is of.
    pub of: StoreView,
    /// The service.
    pub service: String,
    /// A minute counts as late when an activation in it was later than this.
    pub limit_ns: Nanos,
    /// What was changed.
    pub by: Vec<String>,
    /// Machines that were recorded both before and after.
    pub compared: u64,
    /// Machines that were, but of which there are fewer than four recordings on
    /// either side.
    pub too_few: u64,
    /// Machines that were recorded with one value only.
    pub unchanged: u64,
    /// Machines that are late more often, those with the clearest change first.
    pub worse: Vec<HostChange>,
    /// Machines that are late less often.
    pub better: Vec<HostChange>,
    /// Machines of which neither is shown.
    pub undecided: u64,
    /// Of those that are called worse or better, no more than this share is
    /// expected to be called so by chance.
    pub false_share: f64,
    /// Settings that the worse have and the others do not, or the other way
    /// round, the clearest first.
    pub settings: Vec<SettingShare>,
}

/// What a change did to a machine.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HostChange {
    /// The machine.
    pub host: String,
    /// What it ran before, in the order of `by`.
    pub before: Vec<String>,
    /// What it runs since.
    pub after: Vec<String>,
    /// Late minutes an hour before.
    pub before_per_hour: f64,
    /// Late minutes an hour since.
    pub after_per_hour: f64,
    /// The second over the first; absent: there was none before.
    pub ratio: Option<f64>,
    /// Its 95 % interval.
    pub ratio_low: f64,
    /// Its upper end; absent: none.
    pub ratio_high: Option<f64>,
    /// p-value of equal rates, adjusted for the number of machines.
    pub q: f64,
}

/// A setting, and how many machines have it since.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SettingShare {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Machines that got worse and have it.
    pub worse_with: u64,
    /// Machines that got worse.
    pub worse: u64,
    /// Machines that did not get worse and have it.
    pub others_with: u64,
    /// Machines that did not get worse.
    pub others: u64,
    /// How often chance alone is as uneven, adjusted for the number of settings.
    pub q: f64,
}

/// A recording of a machine.
struct One {
    start_s: i64,
    group: Vec<String>,
    count: RecordingCount,
}

/// A machine that can be compared.
struct Compared {
    id: i64,
    change: HostChange,
    comparison: Comparison,
}

/// Compares each machine before and after.
///
/// # Errors
/// When a query fails, or a number of the catalogue is out of its range.
pub fn changed(
    engine: &Engine,
    of: StoreView,
    asked: ChangedAsked,
) -> anyhow::Result<ChangedReport> {
    let (mut all, mut too_few, mut unchanged) = (Vec::new(), 0, 0);
    for ((id, host), recordings) in read(engine, &asked)? {
        let Some((before, after)) = sides(&recordings) else {
            unchanged += 1;
            continue;
        };
        if before.len().min(after.len()) < LEAST {
            too_few += 1;
            continue;
        }
        all.push(compare(id, host, &before, &after)?);
    }
    let p: Vec<f64> = all.iter().map(|one| one.comparison.ratio.p).collect();
    for (one, q) in all.iter_mut().zip(benjamini_hochberg(&p)) {
        one.change.q = q;
    }
    let compared = all.len() as u64;
    all.sort_by(|one, other| {
        one.change
            .q
            .total_cmp(&other.change.q)
            .then_with(|| one.change.host.cmp(&other.change.host))
    });
    let is_more = |one: &Compared| one.change.after_per_hour > one.change.before_per_hour;
    let (clear, rest): (Vec<Compared>, Vec<Compared>) =
        all.into_iter().partition(|one| one.change.q <= FALSE_SHARE);
    let undecided = rest.len() as u64;
    let (worse, better): (Vec<Compared>, Vec<Compared>) = clear.into_iter().partition(is_more);
    let worse_ids: BTreeSet<i64> = worse.iter().map(|one| one.id).collect();
    let other_ids: BTreeSet<i64> = better.iter().chain(&rest).map(|one| one.id).collect();
    let mut settings = settings(engine, &worse_ids, &other_ids)?;
    settings.truncate(asked.top);
    let changes = |all: Vec<Compared>| all.into_iter().map(|one| one.change).collect();
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

/// The recordings of each machine, in the order in which they were made.
fn read(
    engine: &Engine,
    asked: &ChangedAsked,
) -> anyhow::Result<BTreeMap<(i64, String), Vec<One>>> {
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
    let mut hosts: BTreeMap<(i64, String), Vec<One>> = BTreeMap::new();
    for row in 0..rows.len() {
        // When it was made is not known: neither before nor after.
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
        hosts.entry(place).or_default().push(One {
            start_s,
            group,
            count,
        });
    }
    Ok(hosts)
}

/// The recordings with the value that the machine has now, and those with the one
/// that it had before that. `None`: it has always had it.
fn sides(recordings: &[One]) -> Option<(Vec<&One>, Vec<&One>)> {
    let last = recordings.iter().max_by_key(|one| one.start_s)?;
    let others = recordings.iter().filter(|one| one.group != last.group);
    let before = others.max_by_key(|one| one.start_s)?;
    let of = |group: &[String]| recordings.iter().filter(|one| one.group == group).collect();
    Some((of(&before.group), of(&last.group)))
}

fn compare(id: i64, host: String, before: &[&One], after: &[&One]) -> anyhow::Result<Compared> {
    let counts =
        |side: &[&One]| -> Vec<RecordingCount> { side.iter().map(|one| one.count).collect() };
    let [first, second] = [before, after].map(counts);
    let sets = compare_recordings(&first, &second, EQUAL, CONFIDENCE)
        .with_context(|| format!("compare the recordings of `{host}`"))?;
    let rate = |side: &[RecordingCount]| {
        let sum = |of: fn(&RecordingCount) -> f64| side.iter().map(of).sum::<f64>();
        sum(|one| one.events) / sum(|one| one.exposure) * 60.0
    };
    let group = |side: &[&One]| {
        side.first()
            .map(|one| one.group.clone())
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
    Ok(Compared {
        id,
        change,
        comparison: sets.comparison,
    })
}

/// Settings that tell the worse machines from the others.
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
    let all = worse.len() + others.len();
    let mut shares: Vec<SettingShare> = have
        .into_iter()
        // What all have, or one alone, tells nothing.
        .filter(|(_, hosts)| hosts.len() > 1 && hosts.len() < all)
        .map(|((name, value), hosts)| {
            let of =
                |side: &BTreeSet<i64>| (hosts.intersection(side).count() as u64, side.len() as u64);
            let ((worse_with, worse), (others_with, others)) = (of(worse), of(others));
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
    let p: Vec<f64> = shares.iter().map(|one| one.q).collect();
    for (share, q) in shares.iter_mut().zip(benjamini_hochberg(&p)) {
        share.q = q;
    }
    shares.retain(|share| share.q <= FALSE_SHARE);
    shares.sort_by(|one, other| {
        one.q
            .total_cmp(&other.q)
            .then_with(|| one.name.cmp(&other.name))
    });
    Ok(shares)
}

impl ChangedReport {
    /// In words; the first `top` machines of each side.
    pub fn text(&self, top: usize) -> String {
        let mut text = self.of.text();
        text += &format!(
            "{}: minutes in which an activation was later than {}, before and after {} changed.\n",
            self.service,
            Unit::Auto.write_nanos(self.limit_ns),
            self.by.join(" or ")
        );
        if self.compared + self.too_few + self.unchanged == 0 {
            return text + "Nothing was measured in that time.\n";
        }
        text += &format!(
            "{} compared: {} late more often, {} less often, {} not decided.\n",
            super::head::of(self.compared, "machine"),
            count(self.worse.len() as u64),
            count(self.better.len() as u64),
            count(self.undecided)
        );
        text += &format!(
            "Of those called more or less often, no more than {:.0} % are expected to be by chance.\n",
            self.false_share * 100.0
        );
        if self.too_few > 0 {
            text += &format!(
                "{} more with fewer than {LEAST} recordings before or after: not compared.\n",
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
                &["", "before", "after", "late an hour", "since", "times", "q"],
                3,
                &rows,
            );
            if side.len() > top {
                text += &format!("{} more: --top, --json\n", count((side.len() - top) as u64));
            }
        }
        if !self.settings.is_empty() {
            text += "\nWhat tells the machines that are late more often from the others\n";
            let rows: Vec<Vec<String>> = self.settings.iter().map(setting).collect();
            text += &table(&["", "more often", "others", "q"], 1, &rows);
        } else if !self.worse.is_empty() {
            text += "\nNo setting tells the machines that are late more often from the others.\n";
        }
        text
    }
}

fn row(one: &HostChange) -> Vec<String> {
    let times = |ratio: f64| {
        if ratio >= 10.0 {
            format!("{ratio:.0}")
        } else {
            format!("{ratio:.2}")
        }
    };
    let high = one.ratio_high.map_or("no limit".into(), times);
    let interval = format!("[{}, {high}]", times(one.ratio_low));
    vec![
        one.host.clone(),
        one.before.join(", "),
        one.after.join(", "),
        super::worst::per_hour(one.before_per_hour),
        super::worst::per_hour(one.after_per_hour),
        one.ratio.map_or_else(
            || interval.clone(),
            |ratio| format!("{} {interval}", times(ratio)),
        ),
        format!("{:.0e}", one.q),
    ]
}

fn setting(one: &SettingShare) -> Vec<String> {
    vec![
        format!("{} = {}", one.name, one.value),
        format!("{} of {}", one.worse_with, one.worse),
        format!("{} of {}", one.others_with, one.others),
        format!("{:.0e}", one.q),
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

    /// Recordings of an hour, 12 before and 12 after, of 200 machines. A minute is
    /// late with a chance between 1 in 500 and 1 in 10 by machine, which differs from
    /// hour to hour by up to `spread` either way, and is 6 times as high on the first
    /// `faulty` machines after. Who of them are called changed.
    fn called(seed: u64, faulty: usize, spread: f64) -> Vec<usize> {
        let mut random = Random(seed);
        let mut hour = |chance: f64, group: &str, start_s: i64| {
            let by = spread.powf(2.0 * random.share() - 1.0);
            let late = (0..60).filter(|_| random.share() < chance * by).count();
            One {
                start_s,
                group: vec![group.to_owned()],
                count: RecordingCount {
                    events: late as f64,
                    dispersion: 1.0,
                    exposure: 60.0,
                },
            }
        };
        let compared: Vec<Compared> = (0..200)
            .map(|host| {
                let chance = 0.002 * 50_f64.powf(Random(host as u64).share());
                let times = if host < faulty { 6.0 } else { 1.0 };
                let mut all: Vec<One> = (0..12).map(|at| hour(chance, "old", at)).collect();
                all.extend((12..24).map(|at| hour(chance * times, "new", at)));
                let (before, after) = sides(&all).unwrap();
                compare(host as i64, String::new(), &before, &after).unwrap()
            })
            .collect();
        let p: Vec<f64> = compared.iter().map(|one| one.comparison.ratio.p).collect();
        let q = benjamini_hochberg(&p);
        (0..200).filter(|host| q[*host] <= FALSE_SHARE).collect()
    }

    #[test]
    fn where_nothing_changed_next_to_nothing_is_called_changed() {
        for spread in [1.0, 3.0] {
            let wrong: Vec<usize> = (1..=20)
                .map(|seed| called(seed * 1_000, 0, spread).len())
                .collect();

            let runs = wrong.iter().filter(|count| **count > 0).count();
            // One of 20 is expected at the most; 5 or more come once in 400 times.
            assert!(runs < 5, "with a spread of {spread}: {wrong:?}");
        }
    }

    #[test]
    fn three_of_200_that_changed_are_found_and_few_others() {
        let (mut found, mut others) = (0, 0);
        for seed in 1..=20 {
            let all = called(seed * 1_000, 3, 1.5);
            found += all.iter().filter(|host| **host < 3).count();
            others += all.iter().filter(|host| **host >= 3).count();
        }

        assert!(found >= 50, "{found} of 60, and {others} others");
        assert!(others <= 8, "{found} of 60, and {others} others");
    }
}
