//! Probe that plays a script: known latencies, stalls, losses, clock steps and starvation, in
//! virtual time.
//!
//! It writes the same board as the kernel, and the same collector reads it. The output therefore
//! equals the script only if every step from the board to the activations is correct.

mod play;
mod script;

use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, Cpu, Every, Line, LineId, LossReason, Losses, Nanos, OwnCost,
    Stage,
};

pub use script::{Script, ScriptLine, ScriptedSpan};

use crate::board::{
    Asker, Board, BoardView, ExpectedStages, LineReader, Skips, Standing, Stops, Timeline,
};
use crate::probe::{Pace, Probe, ProbeError};
use play::Player;

/// Time that the end waits for unserved expiries.
const END_WAIT: Nanos = Nanos::from_secs(3);

/// Slots of a line as a power of two: few, so that scripts can fill the ring.
const RING_BITS: u32 = 10;

/// Probe that plays a script.
#[derive(Debug)]
pub struct FakeProbe {
    script: Script,
    board: Board,
    lines: Vec<Line>,
    readers: Vec<LineReader>,
    players: Vec<Player>,
    /// Losses before the last restart of the recording.
    earlier: Losses,
    now: Nanos,
    ended: Option<Nanos>,
}

impl FakeProbe {
    /// Creates a probe for a script; CPU 0 plays all lines.
    ///
    /// # Errors
    ///
    /// Returns an error if the script is impossible.
    pub fn new(script: Script) -> Result<Self, ProbeError> {
        script.check()?;
        let nr_slots = script.lines.len() << RING_BITS;
        let board = Board::owned(1, nr_slots);
        let cpu = board.cpu(0);
        cpu.ring_bits
            .store(RING_BITS, std::sync::atomic::Ordering::Relaxed);
        let lines: Vec<Line> = script
            .lines
            .iter()
            .map(|line| Line::new(Cpu(0), line.service, line.route))
            .collect();
        Ok(Self {
            script,
            board,
            lines,
            readers: Vec::new(),
            players: Vec::new(),
            earlier: Losses::default(),
            now: Nanos::from_secs(1_000),
            ended: None,
        })
    }
}

impl Probe for FakeProbe {
    fn backend(&self) -> Backend {
        Backend::Fake
    }

    fn pace(&self) -> Pace {
        Pace {
            period: self.script.period(),
            every: Every::default(),
            dither: self.script.dither,
            seed: self.script.seed,
        }
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
            let id = LineId::at(place as usize).expect("a script has 16 lines at most");
            let last = line.service.last_stage();
            let mut reader = LineReader::new(id, place as usize, last, Asker::Thread);
            reader.expected = ExpectedStages {
                irq: line.has(Stage::Irq),
                expire: line.has(Stage::Expire),
                waking: line.has(Stage::Waking),
            };
            reader.planned = Some(timeline);
            reader.begin = start;
            self.readers.push(reader);
        }
        Ok(start)
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn pause(&mut self, time: Duration) {
        self.now += time.into();
        self.play(self.now);
    }

    fn drain(&mut self, into: &mut Batch) {
        let cpu = self.board.cpu(0);
        for reader in &mut self.readers {
            let mut look = BoardView {
                cpu,
                ring: self.board.ring(cpu, reader.index),
                skips: &mut Skips::default(),
                stops: &Stops::default(),
                until: Nanos::MAX,
            };
            reader.drain(&mut look, into);
            if let Some(ended) = self.ended {
                let standing = Standing {
                    unserved_from: Some(0),
                    given_up: ended + END_WAIT,
                    is_elsewhere: false,
                };
                reader.close(standing, &mut look, into);
            }
        }
    }

    fn begin_anew(&mut self) -> Nanos {
        self.earlier = self.losses();
        for reader in &mut self.readers {
            reader.begin_at(self.now);
        }
        self.now
    }

    fn stop(&mut self) -> Nanos {
        if let Some(ended) = self.ended {
            return ended;
        }
        self.ended = Some(self.now);
        for reader in &mut self.readers {
            reader.until = self.now;
        }
        self.play(self.now + END_WAIT);
        self.now
    }

    fn accounts(&self) -> Vec<Account> {
        self.readers.iter().map(LineReader::account).collect()
    }

    fn losses(&self) -> Losses {
        let mut losses = self.earlier;
        for reader in &self.readers {
            losses.merge(&reader.account().losses);
            if self.ended.is_none() {
                let lost = reader.lost_since(self.board.cpu(0));
                losses.add(LossReason::RingFull, lost);
            }
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

impl FakeProbe {
    /// Serves every expiry whose service runs before `now`. After the end, only expiries that
    /// were due before it.
    fn play(&mut self, now: Nanos) {
        let until = self.ended.unwrap_or(Nanos::MAX);
        for (player, line) in self.players.iter_mut().zip(&self.script.lines) {
            player.play(&self.board, line, &self.script, now, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives every stage a different time, on the lines whose last stage it is or can precede.
    #[test]
    fn stage_has_its_time_from_the_script() {
        for (service, route, stages) in [
            (
                "fifo:90",
                "direct",
                &["irq", "irq_thread", "expire", "waking", "running", "user"][..],
            ),
            ("other", "direct", &["irq_elsewhere", "expire", "user"]),
            ("softirq", "direct", &["irq", "raise", "softirq"]),
            (
                "worker",
                "deferred",
                &["irq", "raise", "softirq", "signal", "worker"],
            ),
            ("kthread", "direct", &["expire", "kthread"]),
        ] {
            let steps = (1..)
                .zip(stages)
                .map(|(n, stage)| format!("[\"{stage}\", {}]", n * 1_600));
            let steps: Vec<String> = steps.collect();
            let script = format!(
                "period_ns = 1000000\n[[line]]\nservice = \"{service}\"\nroute = \"{route}\"\nsteps = [[{}]]\n",
                steps.join(", ")
            );
            let mut probe = FakeProbe::new(Script::parse(&script).unwrap()).unwrap();
            probe.start().unwrap();
            let mut rows = Batch::default();

            probe.pause(Duration::from_millis(5));
            probe.drain(&mut rows);

            let row = rows.iter().next().unwrap();
            let recorded: Vec<(&str, u64)> = laggard_model::STAGES
                .into_iter()
                .filter_map(|stage| Some((stage.name(), row.steps[stage.index()]?.ns())))
                .collect();
            let scripted: Vec<(&str, u64)> = stages
                .iter()
                .copied()
                .zip((1..).map(|n| n * 1_600))
                .collect();
            assert_eq!(recorded, scripted, "{service}");
        }
    }
}
