//! Machines hour by hour: the additional content of the page of `worst`.

use std::collections::BTreeMap;

use laggard_model::Nanos;

use super::figures::figures;
use super::{FleetFigures, Lines, WorstReport};
use crate::engine::Engine;
use crate::sql::{self, By, Only};

/// Maximum number of machines on a page. Each has a row of cells and a section.
pub const MAX_MACHINES: usize = 500;
/// Maximum number of columns: the hours of seven days. Longer times use columns of several hours.
const MAX_COLUMNS: i64 = 168;
/// Maximum number of causes per machine.
const CAUSES: usize = 5;

/// Latencies of machines over time.
#[derive(Clone, Debug)]
pub struct MachineMap {
    /// First hour, counted from 1970.
    pub first_h: i64,
    /// Hours per column.
    pub step_h: i64,
    /// Number of columns.
    pub columns: usize,
    /// Machines in the order of `worst`.
    pub machines: Vec<MappedMachine>,
}

/// Machine of the map.
#[derive(Clone, Debug, Default)]
pub struct MappedMachine {
    /// Names of its kernels.
    pub kernels: Vec<String>,
    /// One cell per column; `None` if nothing was measured.
    pub cells: Vec<Option<MapCell>>,
    /// Figures of all its services over the whole time.
    pub services: Vec<FleetFigures>,
    /// Causes with the most time in its late wakeups, largest first.
    pub causes: Vec<MachineCause>,
}

/// Time range of a machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MapCell {
    /// Number of minutes with a wakeup.
    pub minutes: u64,
    /// Number of minutes with a wakeup later than the limit.
    pub late: u64,
    /// Maximum latency.
    pub largest_ns: Nanos,
}

/// Cause of late wakeups of a machine.
#[derive(Clone, Debug)]
pub struct MachineCause {
    /// Name of the cause, in words.
    pub who: String,
    /// Share of the machine's late time, 0 to 1.
    pub share: f64,
    /// Number of late wakeups that it contributed to.
    pub episodes: u64,
    /// Longest time in one late wakeup.
    pub largest_ns: Nanos,
}

impl MachineMap {
    /// Reads the map of the machines of a report. `line` is the number of the service.
    ///
    /// # Errors
    /// If a query fails, or if there are more machines than a page can show.
    pub fn read(
        engine: &Engine,
        worst: &WorstReport,
        line: i64,
        only: Only,
    ) -> anyhow::Result<Self> {
        let wanted = worst.hosts.len();
        anyhow::ensure!(
            wanted <= MAX_MACHINES,
            "a page shows {MAX_MACHINES} machines at most, and --top asks for {wanted}"
        );
        let mut map = Self {
            first_h: 0,
            step_h: 1,
            columns: 0,
            machines: vec![MappedMachine::default(); wanted],
        };
        if wanted == 0 {
            return Ok(map);
        }
        let places = map.name(engine, worst)?;
        let ids: Vec<i64> = places.keys().copied().collect();
        map.fill(
            engine,
            &places,
            &ids,
            worst.limit_ns,
            Only {
                line: Some(line),
                ..only
            },
        )?;
        let lines = Lines::read(engine)?;
        for row in figures(engine, &lines, &By::Hosts(ids.clone()), only)? {
            let place = row
                .keys
                .first()
                .and_then(|id| places.get(&id.parse().ok()?));
            if let Some(place) = place {
                map.machines[*place].services.push(row.figures);
            }
        }
        map.explain(engine, &places, &ids, only)?;
        Ok(map)
    }

    /// Reads the numbers of the machines with their positions, and their kernels.
    fn name(
        &mut self,
        engine: &Engine,
        worst: &WorstReport,
    ) -> anyhow::Result<BTreeMap<i64, usize>> {
        let by_name: BTreeMap<&str, usize> = worst
            .hosts
            .iter()
            .enumerate()
            .map(|(place, host)| (host.host.as_str(), place))
            .collect();
        let names: Vec<&str> = by_name.keys().copied().collect();
        let rows = engine.query(&sql::kernels_of(&names))?;
        let (id, host) = (rows.whole("host_id")?, rows.text("host")?);
        let kernel = rows.text("kernel")?;
        let mut places = BTreeMap::new();
        for row in 0..rows.len() {
            let place = host[row].as_deref().and_then(|name| by_name.get(name));
            if let (Some(id), Some(place)) = (id[row], place) {
                places.insert(id, *place);
                self.machines[*place].kernels.extend(kernel[row].clone());
            }
        }
        Ok(places)
    }

    /// Reads the cells.
    fn fill(
        &mut self,
        engine: &Engine,
        places: &BTreeMap<i64, usize>,
        ids: &[i64],
        limit: Nanos,
        only: Only,
    ) -> anyhow::Result<()> {
        let limit_ns = i64::try_from(limit.ns()).unwrap_or(i64::MAX);
        let rows = engine.query(&sql::late_hours(limit_ns, ids, only))?;
        let (id, first) = (rows.whole("host_id")?, rows.whole("first_m")?);
        let (minutes, late) = (rows.whole("minutes_seen")?, rows.whole("minutes_late")?);
        let largest = rows.whole("largest_ns")?;
        let hours: Vec<i64> = first.iter().flatten().map(|minute| minute / 60).collect();
        let (Some(from), Some(to)) = (hours.iter().min(), hours.iter().max()) else {
            return Ok(());
        };
        self.step_h = (to - from) / MAX_COLUMNS + 1;
        // Columns of several hours start at a multiple of their length.
        self.first_h = from - from.rem_euclid(self.step_h);
        self.columns = usize::try_from((to - self.first_h) / self.step_h + 1)?;
        for machine in &mut self.machines {
            machine.cells = vec![None; self.columns];
        }
        let number =
            |column: &[Option<i64>], row: usize| column[row].unwrap_or_default().unsigned_abs();
        for row in 0..rows.len() {
            let place = id[row].and_then(|id| places.get(&id));
            let (Some(place), Some(minute)) = (place, first[row]) else {
                continue;
            };
            let column = usize::try_from((minute / 60 - self.first_h) / self.step_h)?;
            let cell = self.machines[*place].cells[column].get_or_insert_default();
            cell.minutes += number(&minutes, row);
            cell.late += number(&late, row);
            let largest = Nanos::from_ns(number(&largest, row));
            cell.largest_ns = cell.largest_ns.max(largest);
        }
        Ok(())
    }

    /// Reads the causes.
    fn explain(
        &mut self,
        engine: &Engine,
        places: &BTreeMap<i64, usize>,
        ids: &[i64],
        only: Only,
    ) -> anyhow::Result<()> {
        let rows = engine.query(&sql::main_causes(ids, CAUSES, only))?;
        let (id, class) = (rows.whole("host_id")?, rows.text("class")?);
        let (who, share) = (rows.text("who")?, rows.number("share")?);
        let (episodes, largest) = (rows.whole("late_all")?, rows.whole("most_ns")?);
        for row in 0..rows.len() {
            let place = id[row].and_then(|id| places.get(&id));
            // A share of a total of zero is not a number.
            let share = share[row].filter(|share| share.is_finite());
            let (Some(place), Some(class), Some(share)) = (place, &class[row], share) else {
                continue;
            };
            self.machines[*place].causes.push(MachineCause {
                who: super::causes::words(class, who[row].as_deref()),
                share,
                episodes: episodes[row].unwrap_or_default().unsigned_abs(),
                largest_ns: Nanos::from_ns(largest[row].unwrap_or_default().unsigned_abs()),
            });
        }
        for machine in &mut self.machines {
            machine.causes.sort_by(|cause, other| {
                other
                    .share
                    .total_cmp(&cause.share)
                    .then(cause.who.cmp(&other.who))
            });
        }
        Ok(())
    }
}
