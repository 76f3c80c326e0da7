//! Tests of the collector on a board that the tests write.

use std::sync::atomic::Ordering;

use laggard_model::{Activation, Batch, LineId, Losses, Stage};

use super::super::{Board, BoardSlot, Timeline};
use super::*;

const RING_BITS: u32 = 4;
const SOFTIRQ: usize = 0;
const FOLLOWER: usize = 1;
const PERIOD: Nanos = Nanos::from_ms(1);
const START: Nanos = Nanos::from_secs(1);

/// A softirq, the second of its two followers, and the readers of both lines.
struct FollowedCpu {
    board: Board,
    readers: [LineReader; 2],
    skips: Skips,
    stops: Stops,
    seen: Batch,
    /// Whether the threads of the lines are on another CPU at the end.
    is_elsewhere: bool,
}

/// Returns the time of expiry `number` of the timeline.
fn expiry(number: u64) -> Nanos {
    START + PERIOD * (number + 1)
}

fn reader(index: usize) -> LineReader {
    let id = LineId(u16::try_from(index).unwrap());
    let last = [Stage::Softirq, Stage::User][index];
    let asker = [Asker::Callback, Asker::Follower][index];
    let mut reader = LineReader::new(id, index, last, asker);
    reader.planned = Some(Timeline::new(0, PERIOD, false, 0, 1, START));
    (reader.stride, reader.first) = ([1, 2][index], [0, 1][index]);
    reader
}

impl FollowedCpu {
    fn new() -> Self {
        let board = Board::owned(1, 2 << RING_BITS);
        board.cpu(0).ring_bits.store(RING_BITS, Ordering::Relaxed);
        Self {
            board,
            readers: [reader(SOFTIRQ), reader(FOLLOWER)],
            skips: Skips::default(),
            stops: Stops::default(),
            seen: Batch::default(),
            is_elsewhere: false,
        }
    }

    /// Returns the time of expiry `seq` of a line. The softirq has every expiry, the follower
    /// every second one.
    fn expiry(&self, line: usize, seq: u64) -> Nanos {
        expiry(self.readers[line].number(seq))
    }

    /// Returns slot `place` of a line.
    fn slot(&self, line: usize, place: u64) -> &BoardSlot {
        &self.board.ring(self.board.cpu(0), line)[usize::try_from(place).unwrap()]
    }

    /// Claims a slot for expiry `seq`, which is never served.
    fn ask(&self, line: usize, seq: u64) {
        let writer = self.board.writer(0, line);
        writer.claim(seq, self.expiry(line, seq)).unwrap();
    }

    /// Serves expiry `seq` with latency `late`, as the kernel or a thread does.
    fn serve(&self, line: usize, seq: u64, late: Nanos) {
        let writer = self.board.writer(0, line);
        let expiry = self.expiry(line, seq);
        writer.publish(writer.claim(seq, expiry).unwrap(), expiry + late, false);
    }

    fn read(&mut self, line: usize) {
        let cpu = self.board.cpu(0);
        let mut look = BoardView {
            cpu,
            ring: self.board.ring(cpu, line),
            skips: &mut self.skips,
            stops: &self.stops,
            until: Nanos::MAX,
        };
        self.readers[line].drain(&mut look, &mut self.seen);
    }

    /// Ends the measurement at `until`. Expiries that are not served by `given_up` are given up.
    fn close(&mut self, until: Nanos, unserved_from: Option<u64>, given_up: Nanos) {
        for line in [SOFTIRQ, FOLLOWER] {
            self.readers[line].until = until;
            self.read(line);
            let cpu = self.board.cpu(0);
            let mut look = BoardView {
                cpu,
                ring: self.board.ring(cpu, line),
                skips: &mut self.skips,
                stops: &self.stops,
                until: Nanos::MAX,
            };
            let standing = Standing {
                unserved_from: unserved_from.filter(|_| line == SOFTIRQ),
                given_up,
                is_elsewhere: self.is_elsewhere,
            };
            self.readers[line].close(standing, &mut look, &mut self.seen);
        }
    }

    fn losses(&self, line: usize) -> Losses {
        self.readers[line].account().losses
    }

    fn rows(&self, line: usize) -> Vec<Activation> {
        let activations = self.seen.iter();
        activations
            .filter(|activation| usize::from(activation.line.0) == line)
            .collect()
    }

    /// Checks that every expiry from the start to `until` is settled exactly once.
    fn check_account(&self, line: usize, until: Nanos) {
        let account = self.readers[line].account();
        let due = (0..).map(|seq| self.expiry(line, seq));
        let planned = due.take_while(|expiry| *expiry < until).count() as u64;
        assert_eq!(account.planned, Some(planned), "line {line}");
        assert_eq!(self.rows(line).len() as u64 + account.lost, planned);
    }

    fn numbers(&self, line: usize) -> Vec<(u64, bool)> {
        let activations = self
            .seen
            .iter()
            .filter(|activation| usize::from(activation.line.0) == line);
        activations
            .map(|activation| (activation.seq, activation.missed))
            .collect()
    }
}

const AT_ONCE: Nanos = Nanos::from_us(10);

/// Serves expiry 2 3.5 periods late, so that the softirq skips 3, 4 and 5.
fn late_softirq() -> FollowedCpu {
    late_softirq_of(1, 0)
}

/// Does the same with one in `stride` expiries of the timeline, starting at `first`, for the
/// softirq.
fn late_softirq_of(stride: u64, first: u64) -> FollowedCpu {
    let mut cpu = FollowedCpu::new();
    for (reader, turns) in cpu.readers.iter_mut().zip([1, 2]) {
        reader.first = reader.first * stride + first;
        reader.stride = stride * turns;
    }
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    cpu.serve(SOFTIRQ, 1, AT_ONCE);
    cpu.serve(FOLLOWER, 0, AT_ONCE * 2);
    cpu.serve(SOFTIRQ, 2, Nanos::from_us(3_500) * stride);
    cpu
}

/// Serves the following expiries on time.
fn in_time_again(cpu: &FollowedCpu) {
    cpu.serve(SOFTIRQ, 6, AT_ONCE);
    cpu.serve(SOFTIRQ, 7, AT_ONCE);
    cpu.serve(FOLLOWER, 3, AT_ONCE * 2);
}

#[test]
fn follower_loses_nothing_if_its_softirq_skips_while_it_is_read() {
    let mut cpu = late_softirq();
    cpu.read(SOFTIRQ);
    in_time_again(&cpu);
    cpu.read(FOLLOWER);

    assert_eq!(cpu.numbers(FOLLOWER), [(0, false)]);

    cpu.read(SOFTIRQ);
    cpu.read(FOLLOWER);

    assert_eq!(
        cpu.numbers(FOLLOWER),
        [(0, false), (1, true), (2, true), (3, false)]
    );
    assert_eq!(cpu.losses(FOLLOWER), Losses::default());
}

#[test]
fn follower_misses_expiries_that_a_softirq_of_every_third_period_skips() {
    let mut cpu = late_softirq_of(3, 2);
    cpu.read(SOFTIRQ);
    in_time_again(&cpu);
    for line in [FOLLOWER, SOFTIRQ, FOLLOWER] {
        cpu.read(line);
    }

    assert_eq!(
        cpu.numbers(FOLLOWER),
        [(0, false), (1, true), (2, true), (3, false)]
    );
    assert_eq!(cpu.losses(FOLLOWER), Losses::default());
    // Expiry 8 of the softirq is due at 26 periods.
    let until = expiry(26);
    cpu.close(until, Some(0), until);
    for line in [SOFTIRQ, FOLLOWER] {
        cpu.check_account(line, until);
    }
}

#[test]
fn expiry_is_lost_once_if_only_the_softirq_served_it() {
    let mut cpu = FollowedCpu::new();
    for seq in 0..6 {
        cpu.serve(SOFTIRQ, seq, AT_ONCE);
    }
    cpu.serve(FOLLOWER, 0, AT_ONCE * 2);
    cpu.serve(FOLLOWER, 2, AT_ONCE * 2);

    for line in [SOFTIRQ, FOLLOWER, SOFTIRQ, FOLLOWER] {
        cpu.read(line);
    }

    assert_eq!(cpu.numbers(FOLLOWER), [(0, false), (2, false)]);
    assert_eq!(cpu.losses(FOLLOWER).signal_failed, 1);
}

#[test]
fn gap_is_settled_at_the_end() {
    let mut cpu = late_softirq();
    cpu.read(SOFTIRQ);
    in_time_again(&cpu);
    cpu.readers[FOLLOWER].until = expiry(9);

    cpu.read(FOLLOWER);

    assert_eq!(cpu.numbers(FOLLOWER), [(0, false), (3, false)]);
    assert_eq!(cpu.losses(FOLLOWER).signal_failed, 2);
}

#[test]
fn external_expiry_is_lost_if_not_raised_and_missed_if_the_service_was_busy() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].last = Stage::User;
    cpu.readers[SOFTIRQ].asker = Asker::Device;
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    // Expiry 1 is raised 2.5 periods late, after 2 and 3 have passed, and served after 4 has
    // passed.
    cpu.serve(SOFTIRQ, 1, Nanos::from_us(3_500));
    let slot = &cpu.board.ring(cpu.board.cpu(0), SOFTIRQ)[1];
    let raised = expiry(1) + Nanos::from_us(2_500);
    slot.expiry_ns.store(raised.ns(), Ordering::Relaxed);
    cpu.serve(SOFTIRQ, 5, AT_ONCE);

    cpu.read(SOFTIRQ);

    let numbers = [(0, false), (1, false), (4, true), (5, false)];
    assert_eq!(cpu.numbers(SOFTIRQ), numbers);
    assert_eq!(cpu.losses(SOFTIRQ).not_raised, 2);
}

#[test]
fn expiry_after_the_end_is_not_lost() {
    let mut cpu = FollowedCpu::new();
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    cpu.serve(SOFTIRQ, 4, AT_ONCE);
    cpu.readers[SOFTIRQ].until = expiry(2);

    cpu.read(SOFTIRQ);

    assert_eq!(cpu.numbers(SOFTIRQ), [(0, false)]);
    assert_eq!(cpu.losses(SOFTIRQ).ring_full, 1);
}

#[test]
fn unserved_expiry_has_waited_at_least_until_it_was_given_up() {
    let mut cpu = FollowedCpu::new();
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    cpu.serve(SOFTIRQ, 1, AT_ONCE);
    // The follower has to serve expiry 1 and does not run. The softirq continues.
    cpu.ask(FOLLOWER, 0);
    (2..8).for_each(|seq| cpu.serve(SOFTIRQ, seq, AT_ONCE));
    let (until, given_up) = (expiry(8), expiry(60));

    cpu.close(until, None, given_up);

    let rows = cpu.rows(FOLLOWER);
    assert_eq!(rows.len(), 4);
    for (row, seq) in rows.iter().zip(0..) {
        assert!(row.missed && row.censored);
        assert_eq!((row.seq, row.expiry), (seq, cpu.expiry(FOLLOWER, seq)));
        assert_eq!(row.expiry + row.latency(), given_up);
    }
    let longest = given_up.saturating_sub(expiry(1));
    assert_eq!(cpu.readers[FOLLOWER].given_up(), Some((longest, 4)));
    cpu.check_account(SOFTIRQ, until);
    cpu.check_account(FOLLOWER, until);
}

#[test]
fn followers_wait_as_long_as_a_softirq_that_does_not_run() {
    let mut cpu = late_softirq();
    cpu.serve(FOLLOWER, 1, Nanos::from_ms(3));
    let (until, given_up) = (expiry(20), expiry(99));

    cpu.close(until, Some(0), given_up);

    let censored = |line| cpu.rows(line).iter().filter(|row| row.censored).count();
    // Expiries 3, 4 and 5 were skipped when 2 was served. Expiries 6 to 19 were not served.
    assert_eq!((censored(SOFTIRQ), censored(FOLLOWER)), (14, 7));
    assert_eq!(cpu.losses(FOLLOWER), Losses::default());
    cpu.check_account(SOFTIRQ, until);
    cpu.check_account(FOLLOWER, until);
}

#[test]
fn line_that_was_never_served_accounts_for_its_whole_plan() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    cpu.readers[SOFTIRQ].begin_at(expiry(5));

    cpu.close(expiry(105), Some(0), expiry(200));

    let rows = cpu.rows(SOFTIRQ);
    assert_eq!((rows.len(), rows[0].seq), (100, 0));
    assert_eq!(rows[0].expiry, expiry(5));
    assert!(rows.iter().all(|row| row.censored));
    assert_eq!(cpu.readers[SOFTIRQ].account().planned, Some(100));
}

#[test]
fn expiry_is_lost_as_stopped_if_laggard_was_stopped() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    (0..5).for_each(|seq| cpu.serve(SOFTIRQ, seq, AT_ONCE));
    // laggard is stopped from 5 to 9.5. The thread runs when it can continue.
    cpu.serve(SOFTIRQ, 5, Nanos::from_us(4_500));
    cpu.serve(SOFTIRQ, 10, AT_ONCE);
    let looks = (START, expiry(11));
    let (cpu_board, ring) = (cpu.board.cpu(0), cpu.board.ring(cpu.board.cpu(0), SOFTIRQ));
    let readings = cpu.readers[SOFTIRQ]
        .unread(cpu_board, ring)
        .map(BoardSlot::end)
        .collect();
    cpu.stops.add(looks, readings, PERIOD);

    cpu.close(expiry(11), Some(0), expiry(11));

    let kept: Vec<u64> = cpu.rows(SOFTIRQ).iter().map(|row| row.seq).collect();
    assert_eq!(kept, [0, 1, 2, 3, 4, 10]);
    assert_eq!(cpu.losses(SOFTIRQ).stopped, 5);
    cpu.check_account(SOFTIRQ, expiry(11));
}

#[test]
fn activation_on_another_cpu_is_lost_with_the_expiries_that_waited_for_it() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    cpu.serve(SOFTIRQ, 1, Nanos::from_us(2_500));
    cpu.slot(SOFTIRQ, 1).set_foreign();
    cpu.serve(SOFTIRQ, 4, AT_ONCE);

    cpu.close(expiry(5), Some(0), expiry(9));

    assert_eq!(cpu.numbers(SOFTIRQ), [(0, false), (4, false)]);
    assert_eq!(cpu.losses(SOFTIRQ).foreign, 3);
    cpu.check_account(SOFTIRQ, expiry(5));
}

#[test]
fn wait_on_another_cpu_at_the_end_is_lost_and_not_counted_for_its_line() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    (0..3).for_each(|seq| cpu.serve(SOFTIRQ, seq, AT_ONCE));
    cpu.ask(SOFTIRQ, 3);
    cpu.is_elsewhere = true;

    cpu.close(expiry(9), Some(0), expiry(60));

    assert_eq!(cpu.numbers(SOFTIRQ), [(0, false), (1, false), (2, false)]);
    assert_eq!(cpu.losses(SOFTIRQ).foreign, 6);
    assert_eq!(cpu.readers[SOFTIRQ].given_up(), None);
    cpu.check_account(SOFTIRQ, expiry(9));
}

#[test]
fn work_item_is_missed_until_its_thread_requests_it() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Carrier;
    cpu.readers[SOFTIRQ].last = Stage::User;
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    // The thread that arms the timer is kept away from 1 to 3.5, and then arms 4 too late.
    let came = expiry(3) + Nanos::from_us(500);
    (1..4).for_each(|number| cpu.skips.add(number, came));
    cpu.skips.add(4, expiry(4) + Nanos::from_us(700));
    cpu.serve(SOFTIRQ, 4, Nanos::from_us(900));
    let irq = expiry(4) + Nanos::from_us(800);
    let slot = cpu.slot(SOFTIRQ, 1);
    slot.irq_ns.store(irq.ns(), Ordering::Relaxed);

    cpu.close(expiry(5), None, expiry(5));

    let rows = cpu.rows(SOFTIRQ);
    let latencies = rows
        .iter()
        .map(|row| (row.missed, row.latency().ns() / 1_000));
    let expected = [
        (false, 10),
        (true, 2_500),
        (true, 1_500),
        (true, 500),
        (false, 900),
    ];
    assert!(latencies.eq(expected), "{rows:?}");
    assert_eq!(rows[4].until(Stage::Irq), None);
    assert_eq!(cpu.losses(SOFTIRQ).armed_late, 1);
    assert_eq!(cpu.readers[SOFTIRQ].account().lost, 0);
    cpu.check_account(SOFTIRQ, expiry(5));
}

#[test]
fn expiry_armed_too_late_has_no_interrupt_stages() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    cpu.readers[SOFTIRQ].last = Stage::User;
    for seq in [0, 1] {
        cpu.serve(SOFTIRQ, seq, Nanos::from_us(700));
        let irq = expiry(seq) + Nanos::from_us(600);
        cpu.slot(SOFTIRQ, seq)
            .irq_ns
            .store(irq.ns(), Ordering::Relaxed);
    }
    cpu.slot(SOFTIRQ, 1).set_armed_late();

    cpu.read(SOFTIRQ);

    let rows = cpu.rows(SOFTIRQ);
    assert_eq!(rows[0].until(Stage::Irq), Some(Nanos::from_us(600)));
    assert_eq!(rows[1].until(Stage::Irq), None);
    assert_eq!(rows[1].latency(), Nanos::from_us(700));
    assert_eq!(cpu.losses(SOFTIRQ).armed_late, 1);
}

#[test]
fn reading_before_the_request_is_out_of_order_and_not_a_clock_fault() {
    let mut cpu = FollowedCpu::new();
    cpu.serve(FOLLOWER, 0, AT_ONCE);
    let slot = cpu.slot(FOLLOWER, 0);
    let before = expiry(1).saturating_sub(AT_ONCE);
    slot.end_ns.store(before.ns(), Ordering::Relaxed);
    cpu.serve(FOLLOWER, 1, AT_ONCE * 2);
    let after = expiry(3) + AT_ONCE * 3;
    let running = &cpu.slot(FOLLOWER, 1).running_ns;
    running.store(after.ns(), Ordering::Relaxed);
    cpu.readers[FOLLOWER].asker = Asker::Follower;

    cpu.read(FOLLOWER);

    assert_eq!(cpu.numbers(FOLLOWER), [(1, false)]);
    let losses = cpu.losses(FOLLOWER);
    assert_eq!((losses.out_of_order, losses.clock_back), (2, 0));
    assert_eq!(cpu.readers[FOLLOWER].account().lost, 1);
}

#[test]
fn interrupt_on_another_cpu_is_a_separate_stage_and_not_irq() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    cpu.readers[SOFTIRQ].last = Stage::User;
    for (seq, elsewhere) in [(0, 0), (1, 1), (2, 1)] {
        cpu.serve(SOFTIRQ, seq, AT_ONCE);
        let place = usize::try_from(seq).unwrap();
        let slot = &cpu.board.ring(cpu.board.cpu(0), SOFTIRQ)[place];
        let irq = expiry(seq) + Nanos::from_us(2);
        slot.irq_ns.store(irq.ns(), Ordering::Relaxed);
        slot.elsewhere.store(elsewhere, Ordering::Relaxed);
    }

    cpu.read(SOFTIRQ);

    let until = |stage| {
        cpu.seen
            .iter()
            .map(move |activation| activation.until(stage))
    };
    let irq = Some(Nanos::from_us(2));
    assert!(until(Stage::Irq).eq([irq, None, None]));
    assert!(until(Stage::IrqElsewhere).eq([None, irq, irq]));
    assert!(
        cpu.seen
            .iter()
            .all(|activation| activation.latency() == AT_ONCE)
    );
    assert_eq!(cpu.readers[SOFTIRQ].elsewhere(), 2);
}

/// An interrupt exactly at the expiry belongs to this activation. An earlier interrupt served
/// another timer.
#[test]
fn interrupt_at_the_expiry_belongs_to_the_activation_and_an_earlier_one_is_shared() {
    let mut cpu = FollowedCpu::new();
    cpu.readers[SOFTIRQ].asker = Asker::Thread;
    cpu.readers[SOFTIRQ].last = Stage::User;
    for (seq, early) in [(0, 0), (1, 1)] {
        cpu.serve(SOFTIRQ, seq, AT_ONCE);
        let irq = expiry(seq).saturating_sub(Nanos::from_ns(early));
        let slot = cpu.slot(SOFTIRQ, seq);
        slot.irq_ns.store(irq.ns(), Ordering::Relaxed);
    }

    cpu.read(SOFTIRQ);

    let rows = cpu.rows(SOFTIRQ);
    let irqs: Vec<_> = rows.iter().map(|row| row.until(Stage::Irq)).collect();
    assert_eq!(irqs, [Some(Nanos::ZERO), None]);
    assert_eq!(cpu.losses(SOFTIRQ).irq_shared, 1);
}

/// Mirror of the collector: the softirq of a timer descriptor is known from the thread that it
/// wakes.
#[test]
fn softirq_misses_what_its_thread_missed_if_it_ran_later() {
    const MIRRORED: LineId = LineId(9);
    let mut cpu = FollowedCpu::new();
    let thread = &mut cpu.readers[SOFTIRQ];
    (thread.asker, thread.last) = (Asker::Thread, Stage::User);
    thread.tell_softirq(MIRRORED);
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    // The softirq runs 1.5 periods after expiry 1, the thread 2.5 periods after it.
    cpu.serve(SOFTIRQ, 1, Nanos::from_us(2_500));
    for (seq, late) in [(0, Nanos::from_ns(1_600)), (1, Nanos::from_us(1_500))] {
        let came = expiry(seq) + late;
        let slot = cpu.slot(SOFTIRQ, seq);
        slot.softirq_ns.store(came.ns(), Ordering::Relaxed);
    }
    cpu.serve(SOFTIRQ, 4, AT_ONCE);

    cpu.close(expiry(5), Some(0), expiry(9));

    let mirrored: Vec<(u64, bool, u64)> = cpu
        .seen
        .iter()
        .filter(|activation| activation.line == MIRRORED)
        .map(|activation| (activation.seq, activation.missed, activation.latency().ns()))
        .collect();
    assert_eq!(
        mirrored,
        [(0, false, 1_600), (1, false, 1_500_000), (2, true, 500_000),]
    );
}

/// The slot of a thread that never ran shows whether its softirq ran.
#[test]
fn softirq_of_a_thread_that_never_ran_waits_only_until_it_ran() {
    const MIRRORED: LineId = LineId(9);
    let mirrored = |came: Option<Nanos>| {
        let mut cpu = FollowedCpu::new();
        let thread = &mut cpu.readers[SOFTIRQ];
        (thread.asker, thread.last) = (Asker::Thread, Stage::User);
        thread.tell_softirq(MIRRORED);
        cpu.ask(SOFTIRQ, 0);
        let slot = cpu.slot(SOFTIRQ, 0);
        slot.set_armed();
        if let Some(late) = came {
            let came = expiry(0) + late;
            slot.softirq_ns.store(came.ns(), Ordering::Relaxed);
        }
        cpu.close(expiry(3), Some(0), expiry(9));
        let activations = cpu
            .seen
            .iter()
            .filter(|activation| activation.line == MIRRORED);
        let rows: Vec<(bool, u64)> = activations
            .map(|activation| (activation.censored, activation.latency().ns() / 1_000))
            .collect();
        let account = cpu.readers[SOFTIRQ].mirror.as_ref().unwrap().account();
        (rows, account.planned, account.lost)
    };

    let never = vec![(true, 9_000), (true, 8_000), (true, 7_000)];
    assert_eq!(mirrored(None), (never, Some(3), 0));
    // No thread requested the expiries after it.
    let came = mirrored(Some(Nanos::from_us(16)));
    assert_eq!(came, (vec![(false, 16)], Some(3), 2));
}
