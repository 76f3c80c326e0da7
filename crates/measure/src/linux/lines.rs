//! Lines of a request, and their place on each CPU.

use laggard_model::{BusyTurns, Contexts, Cpu, Every, Line, Route, Service};

/// Thread that waits if only the softirq was requested.
pub(crate) const CARRIER: Service = Service::Fifo(90);

/// Every `stride`-th expiry of a timeline, starting at number `first`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Turn {
    pub(crate) first: u64,
    pub(crate) stride: u64,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            first: 0,
            stride: 1,
        }
    }
}

/// Mechanism of the deferred route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Deferral {
    /// Callback of a BPF timer, which then signals a thread or a work item.
    Callback,
    /// Timer descriptor of a thread, which expires in softirq context.
    Descriptor,
}

/// Lines of one CPU by their place on the board.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuLines {
    pub(crate) cpu: u32,
    /// Lines; the index is the place on the board.
    pub(crate) lines: Vec<Line>,
    /// Followers that take the softirq's expiries in turn, as places on the board.
    pub(crate) followers: Vec<usize>,
    /// Mechanism of the deferred route, if there is one.
    pub(crate) deferral: Option<Deferral>,
    /// Place of the thread that is one of several busy threads, if there is one, and the turns of
    /// these threads.
    pub(crate) contender: Option<(usize, Option<BusyTurns>)>,
    /// Intervals of lines that take only one in several expiries of their timeline.
    every: Every,
}

impl CpuLines {
    /// Returns the lines of `services` on `cpu`. Each has an expiry every period, except for
    /// services in `every`.
    ///
    /// `irq` does not have a separate line. `worker` is reached through the softirq, which is then
    /// measured, too. If there is a softirq, every thread service has a second line, woken by the
    /// softirq. The exceptions are `deadline`, because two deadline threads on a CPU would displace
    /// each other, and threads with a lent priority, because a softirq cannot lend one. A timer
    /// descriptor needs a thread, so in that case there is at least one.
    pub(crate) fn new(cpu: Cpu, services: &[Service], every: &Every, deferral: Deferral) -> Self {
        let mut cpu_lines = Self {
            cpu: cpu.0,
            every: every.clone(),
            ..Self::default()
        };
        let line = |service, route| Line::new(cpu, service, route);
        let threads = || {
            services
                .iter()
                .copied()
                .filter(|service| service.is_thread())
        };
        let has_worker = services.contains(&Service::Worker);
        if has_worker || services.contains(&Service::Softirq) {
            cpu_lines.deferral = Some(deferral);
            cpu_lines.lines.push(line(Service::Softirq, Route::Direct));
        }
        cpu_lines
            .lines
            .extend(threads().map(|service| line(service, Route::Direct)));
        if cpu_lines.deferral.is_some() {
            let first = cpu_lines.lines.len();
            let waiters = threads()
                .filter(|service| !matches!(service, Service::Deadline | Service::Lent(_)));
            cpu_lines
                .lines
                .extend(waiters.map(|service| line(service, Route::Deferred)));
            if deferral == Deferral::Descriptor && cpu_lines.lines.len() == first {
                cpu_lines.lines.push(line(CARRIER, Route::Deferred));
            }
            if has_worker {
                cpu_lines.lines.push(line(Service::Worker, Route::Deferred));
            }
            cpu_lines.followers = (first..cpu_lines.lines.len()).collect();
        }
        cpu_lines
    }

    /// Makes the plain thread one of several busy threads.
    pub(crate) fn beside(mut self, contexts: Option<Contexts>) -> Self {
        self.contender = contexts.and_then(|contexts| {
            let plain = (contexts.plain(), Route::Direct);
            let mut lines = self.lines.iter();
            let place = lines.position(|line| (line.service, line.route) == plain)?;
            Some((place, contexts.turn_ns))
        });
        self
    }

    /// Returns whether the thread of the line at `place` is one of several busy threads.
    pub(crate) fn is_contender(&self, place: usize) -> bool {
        self.contender.is_some_and(|(busy, _)| busy == place)
    }

    /// Returns whether the callback of a BPF timer serves the deferred route.
    pub(crate) fn has_callback(&self) -> bool {
        self.deferral == Some(Deferral::Callback)
    }

    /// Returns the number of timelines of the CPU: one per direct thread, one for the softirq.
    pub(crate) fn timelines(&self) -> usize {
        self.direct_threads().count() + usize::from(self.deferral.is_some())
    }

    /// Returns the places of the threads that the interrupt wakes.
    pub(crate) fn direct_threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.places(|line| line.service.is_thread() && line.route == Route::Direct)
    }

    /// Returns the places of the threads that the softirq wakes.
    pub(crate) fn deferred_threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.places(|line| line.service.is_thread() && line.route == Route::Deferred)
    }

    /// Returns the timeline that leads to the line at `place`: the timeline of a direct thread, or
    /// the last one, which is the softirq timer's.
    pub(crate) fn timeline_of(&self, place: usize) -> usize {
        let own = self.direct_threads().position(|direct| direct == place);
        own.unwrap_or_else(|| self.direct_threads().count())
    }

    /// Returns the expiries of its timeline that the line at `place` takes.
    pub(crate) fn turn_of(&self, place: usize) -> Turn {
        let timeline = self.timeline_of(place);
        let stride = u64::from(self.every.of(match self.lines[place].route {
            Route::Direct => self.lines[place].service,
            Route::Deferred => Service::Softirq,
        }));
        // Different first numbers keep the lines from using the same periods.
        let first = timeline as u64 % stride;
        match self
            .followers
            .iter()
            .position(|&follower| follower == place)
        {
            Some(turn) => Turn {
                first: first + turn as u64 * stride,
                stride: stride * self.followers.len() as u64,
            },
            None => Turn { first, stride },
        }
    }

    /// Returns the places of the threads that another thread requests and lends its priority.
    pub(crate) fn lent(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(place, line)| line.service.lent().map(|priority| (place, priority)))
    }

    /// Returns the place of the work item's line if a timer descriptor starts it instead of a
    /// callback.
    pub(crate) fn carried(&self) -> Option<usize> {
        (self.deferral == Some(Deferral::Descriptor)).then(|| self.place_of(Service::Worker))?
    }

    /// Returns the place of the softirq's line and of the thread line from whose timer descriptor
    /// it gets its activations.
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

    /// Returns the place of `service`'s line if it is not a thread's line.
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
    fn every_thread_service_has_both_routes_with_a_softirq() {
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
    fn cpu_has_one_deadline_thread() {
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
    fn threads_have_only_the_direct_route_without_a_softirq() {
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
    fn service_with_a_stride_uses_the_same_timelines() {
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
        // The softirq, the three threads, and the followers of the softirq.
        assert_eq!(
            turns,
            [(1, 2), (0, 1), (1, 4), (0, 2), (1, 6), (3, 6), (5, 6)]
        );
    }

    #[test]
    fn work_item_has_a_carrier_without_a_callback() {
        let services = [Service::Worker, Service::Fifo(90)];

        let carried = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Descriptor);
        let called = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Callback);

        assert_eq!((carried.carried(), called.carried()), (Some(3), None));
    }

    #[test]
    fn softirq_alone_gets_a_thread_if_it_needs_one() {
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
