//! Which lines a request means, and where they stand on each CPU.

use laggard_model::{Cpu, Line, Route, Service};

/// The lines of one CPU, by their place on the board.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuLines {
    pub(crate) cpu: u32,
    /// Place on the board = index here.
    pub(crate) lines: Vec<Line>,
    /// The softirq timer's followers, in turn: places on the board.
    pub(crate) followers: Vec<usize>,
    /// Whether there is a softirq timer.
    pub(crate) has_deferral: bool,
}

impl CpuLines {
    /// The lines that `services` mean on `cpu`.
    ///
    /// `irq` has no line of its own. `worker` is reached through the softirq,
    /// which is then measured too. Where the softirq timer runs, every thread
    /// service has a second line, woken by it.
    pub(crate) fn new(cpu: Cpu, services: &[Service]) -> Self {
        let mut all = Self {
            cpu: cpu.0,
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
        all.has_deferral = has_worker || services.contains(&Service::Softirq);
        if all.has_deferral {
            all.lines.push(line(Service::Softirq, Route::Direct));
        }
        all.lines
            .extend(threads().map(|service| line(service, Route::Direct)));
        if all.has_deferral {
            let first = all.lines.len();
            all.lines
                .extend(threads().map(|service| line(service, Route::Deferred)));
            if has_worker {
                all.lines.push(line(Service::Worker, Route::Deferred));
            }
            all.followers = (first..all.lines.len()).collect();
        }
        all
    }

    /// How many timelines the CPU has: one per direct thread, one for the
    /// softirq timer.
    pub(crate) fn timelines(&self) -> usize {
        self.direct_threads().count() + usize::from(self.has_deferral)
    }

    /// Places of the threads with a timer of their own.
    pub(crate) fn direct_threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.places(|line| line.service.is_thread() && line.route == Route::Direct)
    }

    /// Places of the threads that the softirq's callback wakes.
    pub(crate) fn deferred_threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.places(|line| line.service.is_thread() && line.route == Route::Deferred)
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
    fn without_a_softirq_threads_are_reached_directly_only() {
        let lines = CpuLines::new(Cpu(0), &[Service::Irq, Service::Fifo(50)]);

        assert_eq!(lines.lines.len(), 1);
        assert_eq!((lines.timelines(), lines.has_deferral), (1, false));
    }
}
