//! The live view on a terminal.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use laggard_measure::Probe;
use laggard_model::{Backend, Cpu};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::late::LateFinder;
use super::look::{Ask, Kept, Look};
use super::state::{Row, State};
use super::view::{Palette, Shown, clock, draw};
use crate::record::{News, Onlooker, Wish, default_name};

/// How often what came is taken in, and drawn if it shows.
const LOOK: Duration = Duration::from_millis(250);

/// The rows on the screen, and what they were made from.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    /// The state's version and the chosen CPU.
    of: Option<(u64, Option<Cpu>)>,
}

/// Somebody who looks at a run on a terminal. The terminal is given back when
/// this is dropped, at the latest; and before a panic's message is printed.
pub(super) struct Screen {
    terminal: Option<DefaultTerminal>,
    state: State,
    /// What is shown while the picture is held still.
    held: Option<Box<State>>,
    rows: Rows,
    look: Look,
    finder: LateFinder,
    palette: Palette,
    wish: Wish,
    must_draw: bool,
    told: Vec<String>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open(
        state: State,
        finder: LateFinder,
        kept: Option<Kept>,
    ) -> anyhow::Result<Self> {
        let terminal = ratatui::try_init()
            .context("draw on this terminal (`--batch` prints lines instead)")?;
        Ok(Self {
            terminal: Some(terminal),
            state,
            held: None,
            rows: Rows::default(),
            look: Look::new(kept),
            finder,
            palette: Palette::of_environment(),
            wish: Wish::GoOn,
            must_draw: true,
            told: Vec::new(),
        })
    }

    /// What was seen, and what is to be told, when the run has ended.
    pub(super) fn into_seen(mut self) -> (State, Vec<String>) {
        self.close();
        let told = std::mem::take(&mut self.told);
        (self.state.clone(), told)
    }

    fn close(&mut self) {
        // A panic has given the terminal back before its message, which a second
        // time would be written over.
        if self.terminal.take().is_some() && !std::thread::panicking() {
            ratatui::restore();
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let Some(terminal) = &mut self.terminal else {
            return Ok(());
        };
        let state = self.held.as_deref().unwrap_or(&self.state);
        self.rows.refresh(state, self.look.cpu);
        let shown = Shown {
            state,
            look: &self.look,
            rows: &self.rows.rows,
            palette: self.palette,
        };
        terminal
            .draw(|frame| draw(frame, &shown))
            .context("draw on the terminal")?;
        self.must_draw = false;
        Ok(())
    }

    /// Takes in what the terminal has to say until `deadline`, or until the
    /// person wants something of the run.
    fn listen(&mut self, deadline: Instant) -> anyhow::Result<()> {
        while self.wish == Wish::GoOn {
            let left = deadline.saturating_duration_since(Instant::now());
            if !is_ready(left)? {
                return Ok(());
            }
            let mut changed = false;
            // All that waits, then one picture of it.
            while is_ready(Duration::ZERO)? {
                changed |= self.take(&event::read().context("read the terminal")?);
            }
            if changed {
                self.draw()?;
            }
        }
        Ok(())
    }

    /// Whether the picture changes.
    fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let ask = self
                    .look
                    .press(*key, self.rows.rows.len(), &self.state.cpus());
                self.answer(ask);
                true
            }
            Event::Resize(..) => true,
            _ => false,
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Nothing => {}
            Ask::Quit => self.wish = Wish::End,
            Ask::Pause => {
                self.held = match self.held.take() {
                    Some(_) => None,
                    None => Some(Box::new(self.state.clone())),
                };
                self.look.is_paused = self.held.is_some();
            }
            Ask::Reset => {
                self.state.reset();
                self.held = None;
                self.look.is_paused = false;
                self.look.scroll = 0;
            }
            Ask::Record => match &self.look.kept {
                Some(kept) => {
                    self.look.message = Some(format!(
                        "recorded already, from {} on, in {}; it ends with q",
                        clock(kept.from),
                        kept.dir.display()
                    ));
                }
                None => self.wish = Wish::Record(default_name("top")),
            },
        }
    }
}

impl Rows {
    fn refresh(&mut self, state: &State, cpu: Option<Cpu>) {
        let of = Some((state.version, cpu));
        if self.of != of {
            self.rows = state.rows(cpu);
            self.of = of;
        }
    }
}

/// Whether the terminal has something to say within `time`.
fn is_ready(time: Duration) -> anyhow::Result<bool> {
    match event::poll(time) {
        // A signal came: the run looks at it.
        Err(err) if err.kind() == io::ErrorKind::Interrupted => Ok(false),
        ready => ready.context("wait for the terminal"),
    }
}

impl Onlooker for Screen {
    fn wait(&mut self, probe: &mut dyn Probe, most: Duration) -> anyhow::Result<()> {
        if self.must_draw {
            self.draw()?;
        }
        let begin = Instant::now();
        self.listen(begin + LOOK.min(most))?;
        if probe.backend() == Backend::Fake {
            // A script's time passes in its pauses only.
            probe.pause(begin.elapsed());
        }
        Ok(())
    }

    fn observe(&mut self, news: &News<'_>) -> anyhow::Result<Wish> {
        let late = self.finder.find(news.batch, news.late, news.start);
        self.must_draw |= !late.is_empty();
        let times = (news.start, news.now);
        self.must_draw |= self.state.observe(news.batch, late, news.losses, times);
        if self.state.wants_cost() {
            self.state.cost = Some((news.cost)());
        }
        self.must_draw &= self.held.is_none();
        Ok(std::mem::replace(&mut self.wish, Wish::GoOn))
    }

    fn recording(&mut self, begun: Result<PathBuf, String>) {
        match begun {
            Ok(dir) => {
                self.look.message = Some(format!("recording from now on into {}", dir.display()));
                self.look.kept = Some(Kept {
                    dir,
                    from: self.state.now,
                });
            }
            Err(why) => self.look.message = Some(format!("not recorded: {why}")),
        }
        self.must_draw = true;
    }

    fn say(&mut self, text: &str) {
        self.told.push(text.to_owned());
    }

    fn end(&mut self) {
        self.state.close();
        self.close();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}
