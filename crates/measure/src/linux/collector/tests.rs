use super::super::board::{Board, Slot};
use super::*;

const RING_BITS: u32 = 4;
const SOFTIRQ: usize = 0;
const FOLLOWER: usize = 1;
const PERIOD: Nanos = Nanos::from_ms(1);
const START: Nanos = Nanos::from_secs(1);

/// A softirq and the second of its two followers, and who reads them.
struct Cpu {
    board: Board,
    readers: [LineReader; 2],
    skips: Skips,
    seen: Batch,
    losses: Losses,
}

/// When the softirq's expiry `number` is due.
fn expiry(number: u64) -> Nanos {
    START + PERIOD * (number + 1)
}

/// The follower's expiries are those of odd numbers.
fn number(line: usize, seq: u64) -> u64 {
    match line {
        FOLLOWER => 2 * seq + 1,
        _ => seq,
    }
}

fn reader(index: usize) -> LineReader {
    LineReader {
        id: LineId(u16::try_from(index).unwrap()),
        index,
        expected: Expected::default(),
        last: [Stage::Softirq, Stage::User][index],
        stamps: Stamps::default(),
        planned: Some(Timeline::new(0, PERIOD, false, 0, 1, START)),
        stride: [1, 2][index],
        first: [0, 1][index],
        is_follower: index == FOLLOWER,
        next_seq: 0,
        last_end: None,
        last_raise: None,
        begin: Nanos::ZERO,
        until: Nanos::MAX,
        unrecorded: 0,
        unexplained: 0,
        elsewhere: 0,
        mirror: None,
    }
}

impl Cpu {
    fn new() -> Self {
        let board = Board::new(1, 2 << RING_BITS, None).unwrap();
        board.cpu(0).ring_bits.store(RING_BITS, Ordering::Relaxed);
        Self {
            board,
            readers: [reader(SOFTIRQ), reader(FOLLOWER)],
            skips: Skips::default(),
            seen: Batch::default(),
            losses: Losses::default(),
        }
    }

    /// What the kernel, or a thread, does so long after expiry `seq`.
    fn serve(&self, line: usize, seq: u64, late: Nanos) {
        let cpu = self.board.cpu(0);
        let head = &cpu.lines[line].head;
        let place = usize::try_from(head.load(Ordering::Relaxed)).unwrap();
        let slot: &Slot = &self.board.ring(cpu, line)[place];
        let expiry = expiry(number(line, seq));
        slot.begin(seq, expiry, 0);
        slot.end_ns.store((expiry + late).ns(), Ordering::Relaxed);
        head.fetch_add(1, Ordering::Release);
    }

    fn read(&mut self, line: usize) {
        let cpu = self.board.cpu(0);
        let ring = self.board.ring(cpu, line);
        let reader = &mut self.readers[line];
        let skips = &mut self.skips;
        reader.drain(cpu, ring, skips, &mut self.seen, &mut self.losses);
    }

    fn numbers(&self, line: usize) -> Vec<(u64, bool)> {
        let own = self
            .seen
            .iter()
            .filter(|one| usize::from(one.line.0) == line);
        own.map(|one| (one.seq, one.missed)).collect()
    }
}

const AT_ONCE: Nanos = Nanos::from_us(10);

/// Expiry 2 is served 3.5 periods late, so the softirq skips 3, 4 and 5.
fn late_softirq() -> Cpu {
    let cpu = Cpu::new();
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    cpu.serve(SOFTIRQ, 1, AT_ONCE);
    cpu.serve(FOLLOWER, 0, AT_ONCE * 2);
    cpu.serve(SOFTIRQ, 2, Nanos::from_us(3_500));
    cpu
}

/// And then goes on.
fn in_time_again(cpu: &Cpu) {
    cpu.serve(SOFTIRQ, 6, AT_ONCE);
    cpu.serve(SOFTIRQ, 7, AT_ONCE);
    cpu.serve(FOLLOWER, 3, AT_ONCE * 2);
}

#[test]
fn what_the_softirq_skips_while_it_is_read_is_no_loss_of_its_follower() {
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
    assert_eq!(cpu.readers[FOLLOWER].unexplained, 0);
}

#[test]
fn an_expiry_that_the_softirq_served_and_its_follower_did_not_is_lost_once() {
    let mut cpu = Cpu::new();
    for seq in 0..6 {
        cpu.serve(SOFTIRQ, seq, AT_ONCE);
    }
    cpu.serve(FOLLOWER, 0, AT_ONCE * 2);
    cpu.serve(FOLLOWER, 2, AT_ONCE * 2);

    for line in [SOFTIRQ, FOLLOWER, SOFTIRQ, FOLLOWER] {
        cpu.read(line);
    }

    assert_eq!(cpu.numbers(FOLLOWER), [(0, false), (2, false)]);
    assert_eq!(cpu.readers[FOLLOWER].unexplained, 1);
}

#[test]
fn at_the_end_a_gap_waits_for_nothing_and_counts() {
    let mut cpu = late_softirq();
    cpu.read(SOFTIRQ);
    in_time_again(&cpu);
    cpu.readers[FOLLOWER].until = expiry(9);

    cpu.read(FOLLOWER);

    assert_eq!(cpu.numbers(FOLLOWER), [(0, false), (3, false)]);
    assert_eq!(cpu.readers[FOLLOWER].unexplained, 2);
}

#[test]
fn what_an_external_source_could_not_raise_is_lost_and_what_found_the_service_busy_is_missed() {
    let mut cpu = Cpu::new();
    cpu.readers[SOFTIRQ].last = Stage::User;
    cpu.readers[SOFTIRQ].last_raise = Some(Nanos::ZERO);
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    // 1 is raised 2.5 periods late, when 2 and 3 have passed, and served when 4 has.
    cpu.serve(SOFTIRQ, 1, Nanos::from_us(3_500));
    let slot = &cpu.board.ring(cpu.board.cpu(0), SOFTIRQ)[1];
    let raised = expiry(1) + Nanos::from_us(2_500);
    slot.expiry_ns.store(raised.ns(), Ordering::Relaxed);
    cpu.serve(SOFTIRQ, 5, AT_ONCE);

    cpu.read(SOFTIRQ);

    let numbers = [(0, false), (1, false), (4, true), (5, false)];
    assert_eq!(cpu.numbers(SOFTIRQ), numbers);
    assert_eq!(cpu.readers[SOFTIRQ].unexplained, 2);
}

#[test]
fn what_is_due_after_the_end_is_no_loss() {
    let mut cpu = Cpu::new();
    cpu.serve(SOFTIRQ, 0, AT_ONCE);
    cpu.serve(SOFTIRQ, 4, AT_ONCE);
    cpu.readers[SOFTIRQ].until = expiry(2);

    cpu.read(SOFTIRQ);

    assert_eq!(cpu.numbers(SOFTIRQ), [(0, false)]);
    assert_eq!(cpu.readers[SOFTIRQ].unexplained, 1);
}

#[test]
fn an_interrupt_of_another_cpu_is_a_stage_of_its_own_and_no_reading_of_irq() {
    let mut cpu = Cpu::new();
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

    let until = |stage| cpu.seen.iter().map(move |one| one.until(stage));
    let irq = Some(Nanos::from_us(2));
    assert!(until(Stage::Irq).eq([irq, None, None]));
    assert!(until(Stage::IrqElsewhere).eq([None, irq, irq]));
    assert!(cpu.seen.iter().all(|one| one.latency() == AT_ONCE));
    assert_eq!(cpu.readers[SOFTIRQ].elsewhere, 2);
}
