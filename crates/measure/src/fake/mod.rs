//! A probe that plays a script: known latencies, stalls, losses, clock steps
//! and starvation, in virtual time.
//!
//! It writes the same board as the kernel does and is read by the same
//! collector, so what comes out is what the script says only if the whole way
//! from the board on is right.

mod play;
mod script;

use std::time::Duration;

use laggard_model::{
    Backend, Batch, Caveat, Cpu, Line, LineId, LossReason, Losses, Nanos, OwnCost,
};

pub use script::{Script, ScriptLine, Span};

use crate::linux::{Board, Expected, LineReader, Skips, Stamps};
use crate::probe::{Probe, ProbeError};
use crate::timeline::Timeline;
use play::Player;

/// Slots of a line: few, so that scripts can fill them.
const RING_BITS: u32 = 10;

/// Plays a script.
#[derive(Debug)]
pub struct FakeProbe {
    script: Script,
    board: Board,
    lines: Vec<Line>,
    readers: Vec<LineReader>,
    players: Vec<Player>,
    losses: Losses,
    now: Nanos,
    stopped: bool,
}

impl FakeProbe {
    /// A probe for a script; CPU 0 plays all lines.
    ///
    /// # Errors
    /// When the script asks for what cannot be.
    pub fn new(script: Script) -> Result<Self, ProbeError> {
        script.check()?;
        let nr_slots = script.lines.len() << RING_BITS;
        let board = Board::new(1, nr_slots, None).map_err(|source| ProbeError::System {
            action: "map the board".into(),
            remedy: "free some memory".into(),
            source: Some(source),
        })?;
        let cpu = board.cpu(0);
        cpu.ring_bits
            .store(RING_BITS, std::sync::atomic::Ordering::Relaxed);
        let lines: Vec<Line> = script
            .lines
            .iter()
            .map(|line| Line {
                cpu: Cpu(0),
                service: line.service,
                route: line.route,
            })
            .collect();
        Ok(Self {
            script,
            board,
            lines,
            readers: Vec::new(),
            players: Vec::new(),
            losses: Losses::default(),
            now: Nanos::from_secs(1_000),
            stopped: false,
        })
    }
}

impl Probe for FakeProbe {
    fn backend(&self) -> Backend {
        Backend::Fake
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn caveats(&self) -> Vec<Caveat> {
        Vec::new()
    }

    fn start(&mut self) -> Result<Nanos, ProbeError> {
        let start = self.now;
        let places = u32::try_from(self.script.lines.len()).unwrap_or(1);
        for (place, line) in (0..).zip(&self.script.lines) {
            let timeline = Timeline::new(
                self.script.seed,
                self.script.period(),
                self.script.dither,
                place,
                places,
                start,
            );
            self.players
                .push(Player::new(place as usize, timeline, start));
            self.readers.push(LineReader {
                id: LineId(u16::try_from(place).unwrap_or(u16::MAX)),
                index: place as usize,
                expected: Expected {
                    irq: line.has("irq"),
                    expire: line.has("expire"),
                    waking: line.has("waking"),
                },
                last: line.service.last_stage(),
                stamps: Stamps::default(),
                planned: Some(timeline),
                stride: 1,
                first: 0,
                is_follower: false,
                next_seq: 0,
                last_end: None,
                last_raise: None,
                begin: Nanos::ZERO,
                until: Nanos::MAX,
                unrecorded: 0,
                unexplained: 0,
                elsewhere: 0,
                mirror: None,
            });
        }
        Ok(start)
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn pause(&mut self, time: Duration) {
        self.now += time.into();
        for (player, line) in self.players.iter_mut().zip(&self.script.lines) {
            player.play(&self.board, line, &self.script, self.now);
        }
    }

    fn drain(&mut self, into: &mut Batch) {
        let cpu = self.board.cpu(0);
        for reader in &mut self.readers {
            let ring = self.board.ring(cpu, reader.index);
            reader.drain(cpu, ring, &mut Skips::default(), into, &mut self.losses);
        }
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            let unserved = self
                .players
                .iter()
                .filter(|player| player.is_starved())
                .count();
            self.losses.add(LossReason::Unserved, unserved as u64);
        }
    }

    fn losses(&self) -> Losses {
        let mut losses = self.losses;
        for reader in &self.readers {
            let lost = reader.unexplained + reader.lost_since(self.board.cpu(0));
            losses.add(LossReason::RingFull, lost);
        }
        losses
    }

    fn cost(&self) -> OwnCost {
        OwnCost {
            wall_ns: self.now.saturating_sub(Nanos::from_secs(1_000)),
            ..OwnCost::default()
        }
    }
}
