//! End of the measurement, and its warnings.

use std::sync::atomic::Ordering;

use laggard_model::{Account, Caveat, CaveatKind, LossReason, Losses, Nanos, Service, name};

use super::super::programs::Programs;
use super::super::thread::MeasuringThread;
use super::super::{online_cpus, policy};
use super::ThreadSource;
use crate::board::{Asker, LineReader, Standing, unserved};

/// Progress of the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EndPhase {
    /// The softirq timers still run: the end has not started, or they have not reached everything
    /// that was due.
    Timers,
    /// The services have not served all requests.
    Services,
    /// The threads are stopped.
    Threads,
}

impl ThreadSource {
    /// Records no expiry from `ended`.
    pub(super) fn end(&mut self, ended: Nanos) {
        self.ended = Some(ended);
        let board = &self.shared.board;
        self.schedulings.check(&self.threads, board, ended);
        self.skipped.1 = Some(self.skipped_so_far());
        for (_, reader) in &mut self.readers {
            reader.until = ended;
        }
        if self.began.is_none() {
            // No requests are open: the threads end on request.
            self.stop_softirq_timers();
            self.let_threads_end();
            self.threads.clear();
        }
    }

    /// Takes the next step to the end when its precondition is met. Returns whether it was the
    /// last step.
    pub(super) fn come_to_rest(&mut self) -> bool {
        if self.ending == EndPhase::Timers && self.are_past() {
            self.stop_softirq_timers();
        }
        if self.ending == EndPhase::Services && !self.is_anyone_waiting() {
            self.let_threads_end();
        }
        let mut threads = self.threads.iter();
        self.ending == EndPhase::Threads
            && threads.all(MeasuringThread::is_finished)
            && !self.is_anyone_waiting()
    }

    /// Gives up every expiry that has not been served.
    pub(super) fn give_up(&mut self, given_up: Nanos) {
        if self.ending == EndPhase::Timers {
            self.stop_softirq_timers();
        }
        self.let_threads_end();
        self.standings = self
            .readers
            .iter()
            .map(|(cpu, reader)| self.standing(*cpu, reader, given_up))
            .collect();
    }

    fn let_threads_end(&mut self) {
        self.ending = EndPhase::Threads;
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether the softirq timers have reached everything that was due before the end.
    fn are_past(&self) -> bool {
        let ended = self.ended.unwrap_or(Nanos::ZERO);
        let is_past = |cpu| {
            let armed = self
                .programs
                .as_ref()
                .and_then(|programs| programs.armed_for(cpu));
            armed.is_none_or(|armed| armed >= ended)
        };
        let mut timed = self.plans.iter().filter(|plan| plan.has_callback());
        timed.all(|plan| is_past(plan.cpu))
    }

    fn stop_softirq_timers(&mut self) {
        self.ending = EndPhase::Services;
        let Some(programs) = &self.programs else {
            return;
        };
        for plan in &self.plans {
            if let Err(refused) = programs.stop_deferral(plan.cpu) {
                self.caveats.push(Caveat::new(
                    CaveatKind::AbilityAbsent,
                    format!(
                        "the softirq timer of CPU {} did not stop: {}",
                        plan.cpu, refused.reason
                    ),
                    "it ends with this program",
                ));
            }
        }
    }

    /// Returns whether a service has not served a request from before the end.
    fn is_anyone_waiting(&self) -> bool {
        self.readers.iter().any(|(cpu, reader)| {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            unserved(board, reader.index, ring).is_some_and(|slot| slot.expiry() < reader.until)
        })
    }

    /// Returns the state of a line whose thread has stopped waiting.
    fn standing(&self, cpu: u32, reader: &LineReader, given_up: Nanos) -> Standing {
        let board = self.shared.board.cpu(cpu);
        let line = (laggard_model::Cpu(cpu), reader.index);
        let stays = || {
            let threads = self.threads.iter();
            let own = threads.filter(|thread| thread.line == line && !thread.is_finished());
            // A thread that raises a device's interrupt does not serve it.
            own.filter(|thread| thread.is_service || reader.asker != Asker::Device)
        };
        let has_left = || stays().next().is_none();
        let is_elsewhere = stays()
            .filter_map(|thread| policy::cpu_of(thread.tid))
            .any(|now| now != line.0);
        let is_unserved = |is| Standing {
            unserved_from: Some(0).filter(|_| is),
            given_up,
            is_elsewhere,
        };
        match reader.asker {
            Asker::Thread if has_left() => Standing {
                // The service ran after the end, and the thread left before it waited again.
                unserved_from: Some(0),
                given_up: reader.until,
                is_elsewhere,
            },
            Asker::Thread => is_unserved(true),
            Asker::Callback => {
                let armed = self
                    .programs
                    .as_ref()
                    .and_then(|programs| programs.armed_for(cpu));
                is_unserved(armed.is_some_and(|armed| armed < reader.until))
            }
            Asker::Carrier => {
                let carried = board.carried_seq.load(Ordering::Relaxed);
                let pending = board.expiries[reader.index].load(Ordering::Relaxed);
                let unserved_from = match (has_left(), pending) {
                    (true, 0) => None,
                    (false, 0) => Some(carried + 1),
                    _ => Some(carried),
                };
                Standing {
                    unserved_from,
                    given_up,
                    is_elsewhere,
                }
            }
            Asker::Follower | Asker::Device | Asker::Mirrored => is_unserved(false),
        }
    }

    /// Returns the number of skipped program calls so far.
    pub(super) fn skipped_so_far(&self) -> u64 {
        self.programs.as_ref().map_or(0, Programs::skipped)
    }

    /// Returns warnings about services that had not run when they were given up.
    pub(super) fn unserved_caveats(&self) -> impl Iterator<Item = Caveat> + '_ {
        let readers = self.readers.iter();
        readers.filter_map(|(cpu, reader)| {
            let (longest, count) = reader.given_up()?;
            let line = self.lines[self.place_of(reader.id)];
            Some(Caveat::new(
                CaveatKind::Losses,
                format!(
                    "{} on CPU {cpu} had not run {longest} after its expiry when the measurement ended ({count} expiries)",
                    name::series_words(line.service, line.route)
                ),
                "these latencies are lower bounds; record longer to measure them",
            ))
        })
    }

    /// Returns the account of every line's plan.
    pub(super) fn accounts_of_lines(&self) -> Vec<Account> {
        let mut accounts = vec![Account::default(); self.lines.len()];
        let mut set = |id: laggard_model::LineId, account: Account| {
            accounts[self.place_of(id)] = account;
        };
        for (cpu, reader) in &self.readers {
            if reader.asker != Asker::Mirrored {
                set(reader.id, self.account_of(*cpu, reader));
            }
            if let Some(mirror) = &reader.mirror {
                set(mirror.id, mirror.account());
            }
        }
        for (place, delay) in self.run_delays.rows() {
            accounts[place].run_delay = Some(delay);
        }
        // Programs serve all lines: skipped calls are counted with the first line.
        let (before, ended) = self.skipped;
        let skipped = ended.unwrap_or_else(|| self.skipped_so_far());
        if let Some(first) = accounts.first_mut() {
            let losses = &mut first.losses;
            losses.add(LossReason::Recursion, skipped.saturating_sub(before));
        }
        accounts
    }

    /// Returns the account of a line. Expiries of a softirq without another cause were served on
    /// another CPU, up to the count of its callback.
    fn account_of(&self, cpu: u32, reader: &LineReader) -> Account {
        let mut account = reader.account();
        let lost = &mut account.losses;
        if reader.asker == Asker::Callback && lost.ring_full > 0 {
            let programs = self.programs.as_ref();
            let foreign = programs.map_or(0, |programs| programs.foreign(cpu));
            let foreign = foreign.min(lost.ring_full);
            lost.ring_full -= foreign;
            lost.add(LossReason::Foreign, foreign);
        }
        account
    }

    /// Returns losses since the last activation that found room.
    pub(super) fn unsettled_losses(&self) -> Losses {
        let mut losses = Losses::default();
        for (cpu, reader) in &self.readers {
            let lost = reader.lost_since(self.shared.board.cpu(*cpu));
            losses.add(LossReason::RingFull, lost);
        }
        losses
    }

    /// Returns the warning about lines whose services ran on other CPUs.
    pub(super) fn moved_caveat(&self) -> Option<Caveat> {
        let accounts = self.accounts_of_lines();
        let moved = || {
            self.lines
                .iter()
                .zip(&accounts)
                .filter(|(_, account)| account.losses.foreign > 0)
        };
        let count: u64 = moved().map(|(_, account)| account.losses.foreign).sum();
        let (first, _) = moved().next()?;
        let online = online_cpus();
        let offline = moved().find(|(line, _)| !online.contains(line.cpu));
        let are_deadline = moved().all(|(line, _)| line.service == Service::Deadline);
        let why = match offline {
            Some((line, _)) => format!("CPU {} was taken offline", line.cpu),
            None if are_deadline => {
                "the kernel moves a deadline thread that has used up its runtime, for example after steal time".into()
            }
            None => "something moved laggard's threads (`taskset`, a cpuset, a CPU taken offline)"
                .into(),
        };
        Some(Caveat::new(
            CaveatKind::Moved,
            format!(
                "{count} wakeups of {} series, such as {} ({}) on CPU {}, were served on another CPU, or waited there until the end, and are lost: {why}",
                moved().count(),
                first.service,
                first.route,
                first.cpu
            ),
            "do not change CPUs or laggard's threads during the measurement",
        ))
    }

    /// Returns the warning about lines whose threads did not keep the scheduling of their
    /// service.
    pub(super) fn rescheduled_caveat(&self) -> Option<Caveat> {
        let began = self.began.unwrap_or(Nanos::ZERO);
        let line_of = |thread: &MeasuringThread| {
            let (cpu, place) = thread.line;
            let plan = self.plans.iter().find(|plan| plan.cpu == cpu.0)?;
            plan.lines.get(place).copied()
        };
        self.schedulings.caveat(&self.threads, began, line_of)
    }

    /// Returns the warning that laggard itself was stopped.
    pub(super) fn stopped_caveat(&self) -> Option<Caveat> {
        let began = self.began?;
        let (first, times, total) = self.stops.since(began)?;
        let times = match times {
            1 => String::new(),
            times => format!("{times} times, "),
        };
        Some(Caveat::new(
            CaveatKind::Stopped,
            format!(
                "laggard itself was stopped {times}for {:.2} s, first {:.2} s after the start of the measurement; expiries during a stop are lost",
                total.as_secs_f64(),
                first.saturating_sub(began).as_secs_f64()
            ),
            "do not stop laggard during the measurement (signal, Ctrl-Z, debugger, frozen control group, suspend)",
        ))
    }
}
