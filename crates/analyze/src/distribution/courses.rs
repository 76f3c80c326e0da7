//! Courses of all services of a recording.

use laggard_model::{Activation, Batch, Gather, Line, LineId, Nanos};

use super::course::{Course, Cut, Focus, Point, limit};
use super::quantile::Quantile;
use super::{Group, Key};

/// Course of every service, fed by batches in any order.
#[derive(Clone, Debug)]
pub struct Courses {
    lines: Vec<Line>,
    courses: Vec<Course>,
    /// For each line, the course of its service and of its interrupts.
    places: Vec<[Option<usize>; 2]>,
}

impl Focus {
    /// Selects the samples of `group`: all, or if `is_partly`, only the samples that the recording
    /// kept.
    pub fn new(group: &Group, threshold: Nanos, is_partly: bool) -> Self {
        let histogram = group.latency.histogram();
        let median = match group.quantile(0.5) {
            _ if is_partly => None,
            Quantile::Is(median) => Some(median),
            // The middle of a few samples is still an example. If a service was still
            // waiting at the end, the median of the others is.
            _ => group.ordinary().or(histogram.max()),
        };
        Self {
            service: group.key.service,
            route: group.key.route,
            limit: limit(histogram, threshold),
            median,
        }
    }
}

impl Courses {
    /// Creates courses of a recording with these `lines`: one per focus.
    pub fn new(lines: &[Line], focuses: &[Focus], cut: Cut) -> Self {
        let place = |line: Line| {
            focuses
                .iter()
                .position(|focus| focus.service == line.service && focus.route == line.route)
        };
        Self {
            lines: lines.to_vec(),
            courses: focuses
                .iter()
                .map(|&focus| Course::new(focus, cut))
                .collect(),
            places: lines
                .iter()
                .map(|line| [*line, line.interrupts()].map(place))
                .collect(),
        }
    }

    /// Adds every activation of a batch with all columns. Skips lines that the
    /// recording does not have.
    pub fn add(&mut self, batch: &Batch) {
        for activation in batch.iter() {
            self.add_one(&activation);
        }
    }

    fn add_one(&mut self, activation: &Activation) {
        let index = usize::from(activation.line.0);
        let (Some(line), Some(&[own, irq])) = (self.lines.get(index), self.places.get(index))
        else {
            return;
        };
        let read = activation.readings();
        if let Some(course) = own.and_then(|place| self.courses.get_mut(place)) {
            course.add(activation, line.cpu, read.own);
        }
        if let Some(course) = irq.and_then(|place| self.courses.get_mut(place))
            && let Some(latency) = read.irq
        {
            course.add(activation, line.cpu, latency);
        }
    }

    /// Adds one of the largest samples of an interval, without its stages.
    pub fn add_largest(
        &mut self,
        line: LineId,
        expiry: Nanos,
        latency: Nanos,
        (missed, still_waiting): (bool, bool),
    ) {
        let index = usize::from(line.0);
        let (Some(line), Some(&[own, _])) = (self.lines.get(index), self.places.get(index)) else {
            return;
        };
        if let Some(course) = own.and_then(|place| self.courses.get_mut(place)) {
            course.add_largest(Point {
                expiry,
                cpu: line.cpu,
                latency,
                missed,
                still_waiting,
            });
        }
    }

    /// Returns the courses, in the order of the focuses.
    pub fn into_courses(self) -> Vec<Course> {
        self.courses
    }
}

impl Gather for Courses {
    fn batch(&mut self, rows: &Batch) {
        self.add(rows);
    }

    fn join(&mut self, later: Self) {
        for (mine, theirs) in self.courses.iter_mut().zip(later.courses) {
            mine.merge(theirs);
        }
    }
}

/// Returns the selections for a recording with these groups. The groups must not be
/// divided by CPU or minute.
pub fn focuses(groups: &[Group], threshold: Nanos, is_partly: bool) -> Vec<Focus> {
    groups
        .iter()
        .filter(|group| {
            matches!(
                group.key,
                Key {
                    part: None,
                    cpu: None,
                    ..
                }
            )
        })
        .map(|group| Focus::new(group, threshold, is_partly))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Cpu, Route, STAGES, Service, Stage};

    #[test]
    fn activation_counts_for_its_service_and_for_the_interrupt() {
        let lines = [Line::new(Cpu(1), Service::Fifo(90), Route::Direct)];
        let focus = |service| Focus {
            service,
            route: Route::Direct,
            limit: Nanos::ZERO,
            median: Some(Nanos::from_us(1)),
        };
        let focuses = [focus(Service::Irq), focus(Service::Fifo(90))];
        let mut courses =
            Courses::new(&lines, &focuses, Cut::new(Nanos::ZERO, Nanos::from_secs(1)));
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_us(3));
        steps[Stage::User.index()] = Some(Nanos::from_us(4));
        let mut batch = Batch::default();
        for missed in [false, true] {
            batch.push(&Activation {
                line: LineId(0),
                seq: 0,
                expiry: Nanos::from_ms(5),
                missed,
                censored: false,
                steps,
            });
        }

        courses.add(&batch);

        let points: Vec<Vec<u64>> = courses
            .into_courses()
            .iter()
            .map(|course| {
                course
                    .points()
                    .iter()
                    .map(|point| point.latency.ns())
                    .collect()
            })
            .collect();
        assert_eq!(points, [vec![3_000], vec![7_000, 7_000]]);
    }
}
