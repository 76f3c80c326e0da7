//! The live view on a terminal.
//!
//! A terminal may be slow (a remote connection, or Ctrl-S). So a separate thread draws and
//! reads keys. The collecting thread only stores new samples and reads requests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use laggard_answer::live::{LateFinder, Live, Row};
use laggard_measure::linux;
use laggard_model::Cpu;
use laggard_session::{Ending, News, Next, SessionError, WatchError, Watcher};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::keys::Keys;
use super::look::{KeptRecording, KeyRequest, LiveLook};
use super::panel::{Palette, Shown, clock, draw};
use crate::measuring::default_name;

/// Minimum time between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// Maximum time for drawing. A stopped or closed terminal does not accept output.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Rows on the screen, with the version of their state.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    /// Version of the state, and the chosen CPU.
    of: Option<(u64, Option<Cpu>)>,
}

/// Live view on a terminal. The terminal is restored when this is dropped, and before the
/// message of a panic.
pub(super) struct LiveScreen {
    finder: LateFinder,
    shared: Arc<SharedState>,
    /// Draws and reads keys. `None` after it has ended.
    drawer: Option<JoinHandle<anyhow::Result<()>>>,
    told: Vec<String>,
}

/// State of both threads.
struct SharedState {
    picture: Mutex<Picture>,
    /// Whether nothing more may be drawn.
    is_over: AtomicBool,
}

/// Contents of the screen, and requests of the user.
struct Picture {
    state: Live,
    /// State on the screen during a pause.
    held: Option<Box<Live>>,
    rows: Rows,
    look: LiveLook,
    palette: Palette,
    next: Next,
    must_draw: bool,
}

impl LiveScreen {
    /// Opens the view on the terminal.
    pub(super) fn open(
        state: Live,
        finder: LateFinder,
        kept: Option<KeptRecording>,
    ) -> anyhow::Result<Self> {
        let terminal = ratatui::try_init().context("cannot draw on this terminal; use --batch")?;
        let shared = Arc::new(SharedState {
            picture: Mutex::new(Picture {
                state,
                held: None,
                rows: Rows::default(),
                look: LiveLook::new(kept),
                palette: Palette::of_environment(),
                next: Next::GoOn,
                must_draw: true,
            }),
            is_over: AtomicBool::new(false),
        });
        // The terminal is restored before the message of a panic, which must not be drawn
        // over.
        let (restore, theirs) = (std::panic::take_hook(), shared.clone());
        std::panic::set_hook(Box::new(move |panic| {
            theirs.is_over.store(true, Ordering::Relaxed);
            restore(panic);
        }));
        let mut screen = Self {
            finder,
            shared: shared.clone(),
            drawer: None,
            told: Vec::new(),
        };
        let drawer = std::thread::Builder::new()
            .name("laggard/screen".into())
            .spawn(move || show(terminal, &shared))
            .inspect_err(|_| ratatui::restore())
            .context("cannot start the thread that draws")?;
        screen.drawer = Some(drawer);
        Ok(screen)
    }

    /// Returns the state and the messages at the end of the run.
    pub(super) fn into_live(mut self) -> (Live, Vec<String>) {
        // An error of the screen was reported when it ended the run.
        let _ = self.close();
        let messages = std::mem::take(&mut self.told);
        (self.shared.picture().state.clone(), messages)
    }

    /// Ends drawing and restores the terminal. Returns an earlier error of drawing.
    fn close(&mut self) -> anyhow::Result<()> {
        let Some(drawer) = self.drawer.take() else {
            return Ok(());
        };
        self.shared.is_over.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        while !drawer.is_finished() && begin.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        let drawn = if drawer.is_finished() {
            drawer.join()
        } else {
            Ok(Err(anyhow!("the terminal does not accept output")))
        };
        // A panic has restored the terminal before its message. A second time would
        // overwrite it.
        if std::thread::panicking() {
            return Ok(());
        }
        match drawn {
            Ok(drawn) => {
                ratatui::restore();
                drawn
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Returns whether drawing has ended because of an error.
    fn is_blind(&self) -> bool {
        self.drawer.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl SharedState {
    fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Draws and reads keys until the end.
fn show(mut terminal: DefaultTerminal, shared: &SharedState) -> anyhow::Result<()> {
    linux::take_usual_share();
    let keys = Keys::open()?;
    while !shared.is_over() {
        if shared.picture().must_draw {
            draw_on(&mut terminal, shared)?;
        }
        listen(&mut terminal, &keys, shared, Instant::now() + DRAW_EVERY)?;
    }
    Ok(())
}

fn draw_on(terminal: &mut DefaultTerminal, shared: &SharedState) -> anyhow::Result<()> {
    // The lock is held while the frame is built, not while the terminal receives it.
    terminal
        .draw(|frame| shared.picture().draw(frame))
        .context("cannot draw on the terminal")?;
    Ok(())
}

/// Reads events of the terminal until `deadline`.
fn listen(
    terminal: &mut DefaultTerminal,
    keys: &Keys,
    shared: &SharedState,
    deadline: Instant,
) -> anyhow::Result<()> {
    while !shared.is_over() {
        let left = deadline.saturating_duration_since(Instant::now());
        if !keys.are_pressed(left)? {
            return Ok(());
        }
        let mut changed = false;
        // All pending events, then one drawing.
        while keys.are_pressed(Duration::ZERO)? {
            let event = event::read().context("cannot read the terminal")?;
            changed |= shared.picture().take(&event);
        }
        if changed {
            draw_on(terminal, shared)?;
        }
    }
    Ok(())
}

impl Picture {
    fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        let state = self.held.as_deref().unwrap_or(&self.state);
        self.rows.refresh(state, self.look.cpu);
        let shown = Shown {
            state,
            look: &self.look,
            rows: &self.rows.rows,
            palette: self.palette,
        };
        draw(frame, &shown);
        self.must_draw = false;
    }

    /// Handles an event. Returns whether the screen changes.
    fn take(&mut self, event: &Event) -> bool {
        if let Some(key) = event.as_key_press_event() {
            let ask = self
                .look
                .press(key, self.rows.rows.len(), &self.state.cpus());
            self.answer(ask);
            return true;
        }
        matches!(event, Event::Resize(..))
    }

    fn answer(&mut self, ask: KeyRequest) {
        match ask {
            KeyRequest::Nothing => {}
            KeyRequest::Quit => self.next = Next::End,
            KeyRequest::Pause => {
                self.held = match self.held.take() {
                    Some(_) => None,
                    None => Some(Box::new(self.state.clone())),
                };
                self.look.is_paused = self.held.is_some();
            }
            KeyRequest::Reset => {
                self.state.reset();
                self.held = None;
                self.look.is_paused = false;
                self.look.scroll = 0;
            }
            KeyRequest::Record => match &self.look.kept {
                Some(kept) => {
                    self.look.message = Some(format!(
                        "recording since {} to {}; q ends it",
                        clock(kept.from),
                        kept.dir.display()
                    ));
                }
                None if self.next == Next::GoOn => self.next = Next::Record(default_name("top")),
                None => {}
            },
        }
    }
}

impl Rows {
    fn refresh(&mut self, state: &Live, cpu: Option<Cpu>) {
        let drawn = Some((state.version, cpu));
        if self.of != drawn {
            self.rows = state.rows(cpu);
            self.of = drawn;
        }
    }
}

impl Watcher for LiveScreen {
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        if self.is_blind() {
            self.close()?;
        }
        let late = self.finder.find(news.batch, news.late, news.start);
        let mut picture = self.shared.picture();
        let mut shows = !late.is_empty();
        let times = (news.start, news.now);
        shows |= picture.state.observe(news.batch, late, news.losses, times);
        if picture.state.wants_cost() {
            picture.state.cost = Some((news.cost)());
        }
        picture.must_draw |= shows && picture.held.is_none();
        Ok(std::mem::replace(&mut picture.next, Next::GoOn))
    }

    fn recording(&mut self, begun: Result<&Path, &SessionError>) {
        let mut picture = self.shared.picture();
        match begun {
            Ok(dir) => {
                let from = picture.state.now;
                let dir: PathBuf = dir.to_owned();
                picture.look.message = Some(format!("recording to {}", dir.display()));
                picture.look.kept = Some(KeptRecording { dir, from });
            }
            Err(why) => picture.look.message = Some(format!("not recorded: {}", why.in_full())),
        }
        picture.must_draw = true;
    }

    fn say(&mut self, text: &str) {
        self.told.push(text.to_owned());
    }

    /// Stops drawing. The terminal is restored later, because one that does not accept
    /// output must not delay the end.
    fn end(&mut self, ending: &Ending) {
        let mut picture = self.shared.picture();
        let state = &mut picture.state;
        state.end(&ending.caveats, ending.losses, ending.cost.clone());
        drop(picture);
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
