//! Which lines a request means, and where they stand on each CPU.

use laggard_model::{BusyTurns, Contexts, Cpu, Every, Line, Route, Service};

/// The thread that waits where only the softirq is asked for.
const CARRIER: Service = Service::Fifo(90);

/// Every `stride`-th expiry of a timeline from number `first` on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Turn {
    pub(crate) first: u64,
    pub(crate) stride: u64,
}

impl Default for Turn {
    /// Every expiry.
    fn default() -> Self {
        Self {
            first: 0,
            stride: 1,
        }
    }
}

/// What serves the deferred route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Deferral {
    /// A callback of ours, which then asks a thread or a work item.
    Callback,
    /// A thread's own timer descriptor, which expires in softirq context.
    Descriptor,
}

/// The lines of one CPU, by their place on the board.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuLines {
    pub(crate) cpu: u32,
    /// Place on the board = index here.
    pub(crate) lines: Vec<Line>,
    /// Who takes the softirq's expiries, in turn: places on the board.
    pub(crate) followers: Vec<usize>,
    /// What serves the deferred route, where there is one.
    pub(crate) deferral: Option<Deferral>,
    /// The place of the thread that is one of several busy ones, if one is, and the
    /// turns that they give each other.
    pub(crate) contender: Option<(usize, Option<BusyTurns>)>,
    /// Which timelines lead to a line at one of so many expiries only.
    every: Every,
}

impl CpuLines {
    /// The lines that `services` mean on `cpu`, each with an expiry every period
    /// but for those of `every`.
    ///
    /// `irq` has no line of its own. `worker` is reached through the softirq,
    /// which is then measured too. Where there is a softirq, every thread
    /// service has a second line, woken by it, but for `deadline`: two such threads
    /// on a CPU would move each other away; and for a thread whose priority is lent,
    /// which a softirq cannot do. A timer descriptor needs a thread, so
    /// there is at least one of those.
    pub(crate) fn new(cpu: Cpu, services: &[Service], every: &Every, deferral: Deferral) -> Self {
        let mut all = Self {
            cpu: cpu.0,
            every: every.clone(),
            ..Self::default()
        };
        let line = |service, route| Line {
            cpu,
            service,
            route,
        };
        let threads = || {
            services
                .iter()
                .copied()
                .filter(|service| service.is_thread())
        };
        let has_worker = services.contains(&Service::Worker);
        if has_worker || services.contains(&Service::Softirq) {
            all.deferral = Some(deferral);
            all.lines.push(line(Service::Softirq, Route::Direct));
        }
        all.lines
            .extend(threads().map(|service| line(service, Route::Direct)));
        if all.deferral.is_some() {
            let first = all.lines.len();
            let waiters = threads()
                .filter(|service| !matches!(service, Service::Deadline | Service::Lent(_)));
            all.lines
                .extend(waiters.map(|service| line(service, Route::Deferred)));
            if deferral == Deferral::Descriptor && all.lines.len() == first {
                all.lines.push(line(CARRIER, Route::Deferred));
            }
            if has_worker {
                all.lines.push(line(Service::Worker, Route::Deferred));
            }
            all.followers = (first..all.lines.len()).collect();
        }
        all
    }

    /// The same with its plain thread one of those that are busy.
    pub(crate) fn beside(mut self, contexts: Option<Contexts>) -> Self {
        self.contender = contexts.and_then(|contexts| {
            let plain = (contexts.plain(), Route::Direct);
            let mut lines = self.lines.iter();
            let place = lines.position(|line| (line.service, line.route) == plain)?;
            Some((place, contexts.turn_ns))
        });
        self
    }

    /// Whether the thread of the line at `place` is one of those that are busy.
    pub(crate) fn is_contender(&self, place: usize) -> bool {
        self.contender.is_some_and(|(busy, _)| busy == place)
    }

    /// Whether a callback of ours serves the deferred route.
    pub(crate) fn has_callback(&self) -> bool {
        self.deferral == Some(Deferral::Callback)
    }

    /// How many timelines the CPU has: one per direct thread, one for the
    /// softirq.
    pub(crate) fn timelines(&self) -> usize {
        self.direct_threads().count() + usize::from(self.deferral.is_some())
    }

    /// Places of the threads that are woken from the interrupt.
    pub(crate) fn direct_threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.places(|line| line.service.is_thread() && line.route == Route::Direct)
    }

    /// Places of the threads that are woken from the softirq.
    pub(crate) fn deferred_threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.places(|line| line.service.is_thread() && line.route == Route::Deferred)
    }

    /// Which of the CPU's timelines leads to the line at `place`: a direct
    /// thread's own, or the softirq timer's, which is the last.
    pub(crate) fn timeline_of(&self, place: usize) -> usize {
        let own = self.direct_threads().position(|direct| direct == place);
        own.unwrap_or_else(|| self.direct_threads().count())
    }

    /// Which of its timeline's expiries are those of the line at `place`.
    pub(crate) fn turn_of(&self, place: usize) -> Turn {
        let timeline = self.timeline_of(place);
        let stride = u64::from(self.every.of(match self.lines[place].route {
            Route::Direct => self.lines[place].service,
            Route::Deferred => Service::Softirq,
        }));
        // So that not all have theirs in the same periods.
        let first = timeline as u64 % stride;
        match self.followers.iter().position(|&one| one == place) {
            Some(turn) => Turn {
                first: first + turn as u64 * stride,
                stride: stride * self.followers.len() as u64,
            },
            None => Turn { first, stride },
        }
    }

    /// Places of the threads that another asks, and lends its priority.
    pub(crate) fn lent(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(place, line)| line.service.lent().map(|priority| (place, priority)))
    }

    /// The place of the work item's line, where a timer descriptor of a thread
    /// of ours leads to it instead of a callback.
    pub(crate) fn carried(&self) -> Option<usize> {
        (self.deferral == Some(Deferral::Descriptor)).then(|| self.place_of(Service::Worker))?
    }

    /// The place of the softirq's line, and of the thread line whose timer
    /// descriptor it takes its activations from.
    pub(crate) fn mirrored(&self) -> Option<(usize, usize)> {
        if self.deferral != Some(Deferral::Descriptor) {
            return None;
        }
        let thread = self
            .lines
            .iter()
            .position(|line| line.service.is_thread() && line.route == Route::Deferred)?;
        Some((self.place_of(Service::Softirq)?, thread))
    }

    /// The place of `service`'s line that is no thread's.
    pub(crate) fn place_of(&self, service: Service) -> Option<usize> {
        self.lines.iter().position(|line| line.service == service)
    }

    fn places(&self, wanted: impl Fn(&Line) -> bool + 'static) -> impl Iterator<Item = usize> + '_ {
        self.lines
            .iter()
            .enumerate()
            .filter(move |(_, line)| wanted(line))
            .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_service_has_both_routes_where_a_softirq_runs() {
        let lines = CpuLines::new(
            Cpu(1),
            &[
                Service::Irq,
                Service::Softirq,
                Service::Worker,
                Service::Fifo(90),
                Service::Other,
            ],
            &Every::default(),
            Deferral::Callback,
        );

        let names: Vec<String> = lines
            .lines
            .iter()
            .map(|line| format!("{} {}", line.service, line.route))
            .collect();
        assert_eq!(
            names,
            [
                "softirq direct",
                "fifo:90 direct",
                "other direct",
                "fifo:90 deferred",
                "other deferred",
                "worker deferred"
            ]
        );
        assert_eq!((lines.timelines(), lines.followers), (3, vec![3, 4, 5]));
    }

    #[test]
    fn a_cpu_has_one_deadline_thread() {
        let services = [Service::Softirq, Service::Deadline, Service::Nice(-20)];

        let lines = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Callback);

        let names: Vec<String> = lines
            .lines
            .iter()
            .map(|line| format!("{} {}", line.service, line.route))
            .collect();
        assert_eq!(
            names,
            [
                "softirq direct",
                "deadline direct",
                "nice:-20 direct",
                "nice:-20 deferred"
            ]
        );
    }

    #[test]
    fn without_a_softirq_threads_are_reached_directly_only() {
        let lines = CpuLines::new(
            Cpu(0),
            &[Service::Irq, Service::Fifo(50)],
            &Every::default(),
            Deferral::Callback,
        );

        assert_eq!(lines.lines.len(), 1);
        assert_eq!((lines.timelines(), lines.deferral), (1, None));
    }

    #[test]
    fn timer_descriptors_take_turns_on_one_timeline() {
        let services = [Service::Softirq, Service::Fifo(90), Service::Other];

        let lines = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Descriptor);

        assert_eq!(lines.timelines(), 3);
        assert_eq!(
            lines.turn_of(4),
            Turn {
                first: 1,
                stride: 2
            }
        );
        assert_eq!(lines.mirrored(), Some((0, 3)));
        assert!(!lines.has_callback());
    }

    #[test]
    fn what_is_measured_more_seldom_has_its_turn_on_the_same_timelines() {
        let services = [
            Service::Softirq,
            Service::Fifo(90),
            Service::Fifo(50),
            Service::Other,
        ];
        let every = Every::about(Service::Fifo(90));

        let lines = CpuLines::new(Cpu(0), &services, &every, Deferral::Callback);

        let turns: Vec<(u64, u64)> = (0..lines.lines.len())
            .map(|place| lines.turn_of(place))
            .map(|turn| (turn.first, turn.stride))
            .collect();
        // The softirq, the three threads, and those that the softirq asks in turn.
        assert_eq!(
            turns,
            [(1, 2), (0, 1), (1, 4), (0, 2), (1, 6), (3, 6), (5, 6)]
        );
    }

    #[test]
    fn a_work_item_is_carried_where_no_callback_can_start_it() {
        let services = [Service::Worker, Service::Fifo(90)];

        let carried = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Descriptor);
        let called = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Callback);

        assert_eq!((carried.carried(), called.carried()), (Some(3), None));
    }

    #[test]
    fn a_softirq_alone_is_reached_through_a_thread_where_it_needs_one() {
        let lines = CpuLines::new(
            Cpu(0),
            &[Service::Softirq],
            &Every::default(),
            Deferral::Descriptor,
        );

        assert_eq!(lines.mirrored(), Some((0, 1)));
        assert_eq!(lines.lines[1].service, CARRIER);
    }
}
