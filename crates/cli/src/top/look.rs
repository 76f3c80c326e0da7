//! State of the view, and its keys.

use std::path::PathBuf;

use laggard_answer::live::Window;
use laggard_model::{Cpu, Nanos};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Panel below the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Panel {
    Late,
    Histogram,
    Heat,
    Info,
}

impl Panel {
    const ALL: [Self; 4] = [Self::Late, Self::Histogram, Self::Heat, Self::Info];

    fn next(self, step: usize) -> Self {
        let position = Self::ALL
            .iter()
            .position(|panel| *panel == self)
            .unwrap_or(0);
        Self::ALL[(position + step) % Self::ALL.len()]
    }
}

/// Recording of the measurement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct KeptRecording {
    pub(super) dir: PathBuf,
    /// Start of the recording, since the start of measuring.
    pub(super) from: Nanos,
}

/// State of the view.
#[derive(Clone, Debug)]
pub(super) struct LiveLook {
    pub(super) panel: Panel,
    /// Window of the histogram.
    pub(super) window: Window,
    /// Chosen row of the table.
    pub(super) selected: usize,
    /// Chosen CPU. `None` for all.
    pub(super) cpu: Option<Cpu>,
    /// Number of lines that the panel is scrolled back.
    pub(super) scroll: usize,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    pub(super) kept: Option<KeptRecording>,
    /// Message until the next key.
    pub(super) message: Option<String>,
}

/// Request of a key that does not only change the view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum KeyRequest {
    Nothing,
    Quit,
    Pause,
    Reset,
    Record,
}

/// Keys in the help.
pub(super) const KEYS: [(&str, &str); 10] = [
    ("q, Ctrl-C", "quit and print a summary"),
    ("p, space", "pause the screen; measuring continues"),
    ("r", "reset the figures, not the recording"),
    ("s", "save: record to a new directory until you quit"),
    (
        "up, down",
        "choose the service of the histogram and the map",
    ),
    ("left, right", "choose a CPU, or all"),
    (
        "Tab, 1 2 3 4",
        "show late wakeups, histogram, map, information",
    ),
    ("w", "histogram of now, the last minute, or since the start"),
    ("PgUp, PgDn", "scroll; End shows the newest"),
    ("?", "this help; any key closes it"),
];

const PAGE: usize = 5;

impl LiveLook {
    pub(super) const fn new(kept: Option<KeptRecording>) -> Self {
        Self {
            panel: Panel::Late,
            window: Window::Start,
            selected: 0,
            cpu: None,
            scroll: 0,
            is_paused: false,
            shows_help: false,
            kept,
            message: None,
        }
    }

    /// Handles a key. `rows` and `cpus` are the choices.
    pub(super) fn press(&mut self, key: KeyEvent, rows: usize, cpus: &[Cpu]) -> KeyRequest {
        self.message = None;
        // The help covers the screen that the next key changes.
        let had_help = std::mem::take(&mut self.shows_help);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return KeyRequest::Quit,
            KeyCode::Char(_) if control => {}
            KeyCode::Char('q') => return KeyRequest::Quit,
            KeyCode::Char('p' | ' ') => return KeyRequest::Pause,
            KeyCode::Char('r') => return KeyRequest::Reset,
            KeyCode::Char('s') => return KeyRequest::Record,
            KeyCode::Char('?' | 'h') => self.shows_help = !had_help,
            KeyCode::Tab => self.show(self.panel.next(1)),
            KeyCode::BackTab => self.show(self.panel.next(Panel::ALL.len() - 1)),
            KeyCode::Char('1') => self.show(Panel::Late),
            KeyCode::Char('2') => self.show(Panel::Histogram),
            KeyCode::Char('3') => self.show(Panel::Heat),
            KeyCode::Char('4' | 'i') => self.show(Panel::Info),
            KeyCode::Char('w') => self.window = next_window(self.window),
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(rows.saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Right => self.cpu = step_cpu(self.cpu, cpus, 1),
            KeyCode::Left => self.cpu = step_cpu(self.cpu, cpus, cpus.len()),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_add(PAGE),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::Home => self.scroll = usize::MAX,
            KeyCode::End => self.scroll = 0,
            _ => {}
        }
        KeyRequest::Nothing
    }

    fn show(&mut self, panel: Panel) {
        self.panel = panel;
        self.scroll = 0;
    }
}

fn next_window(window: Window) -> Window {
    match window {
        Window::Now => Window::Minute,
        Window::Minute => Window::Start,
        Window::Start => Window::Now,
    }
}

/// Returns the choice `step` places after `cpu`: all CPUs, then each.
fn step_cpu(cpu: Option<Cpu>, cpus: &[Cpu], step: usize) -> Option<Cpu> {
    let choices_of_cpu = std::iter::once(None).chain(cpus.iter().copied().map(Some));
    let choices: Vec<Option<Cpu>> = choices_of_cpu.collect();
    let position = choices
        .iter()
        .position(|choice| *choice == cpu)
        .unwrap_or(0);
    choices[(position + step) % choices.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(look: &mut LiveLook, code: KeyCode) -> KeyRequest {
        look.press(KeyEvent::from(code), 3, &[Cpu(0), Cpu(4)])
    }

    #[test]
    fn left_and_right_walk_round_all_cpus_and_each() {
        let mut look = LiveLook::new(None);
        let mut visited = Vec::new();
        for _ in 0..4 {
            press(&mut look, KeyCode::Right);
            visited.push(look.cpu);
        }
        assert_eq!(visited, [Some(Cpu(0)), Some(Cpu(4)), None, Some(Cpu(0))]);

        press(&mut look, KeyCode::Left);
        press(&mut look, KeyCode::Left);
        assert_eq!(look.cpu, Some(Cpu(4)));
    }

    #[test]
    fn the_chosen_service_stays_within_the_table() {
        let mut look = LiveLook::new(None);
        for _ in 0..9 {
            press(&mut look, KeyCode::Down);
        }
        assert_eq!(look.selected, 2);
        for _ in 0..9 {
            press(&mut look, KeyCode::Up);
        }
        assert_eq!(look.selected, 0);
    }

    #[test]
    fn tab_goes_round_every_panel_and_back() {
        let mut look = LiveLook::new(None);
        let mut visited = vec![look.panel];
        for _ in 1..Panel::ALL.len() {
            press(&mut look, KeyCode::Tab);
            visited.push(look.panel);
        }
        assert_eq!(visited, Panel::ALL);
        press(&mut look, KeyCode::Tab);
        press(&mut look, KeyCode::BackTab);
        assert_eq!(look.panel, Panel::Info);
    }

    #[test]
    fn control_c_quits_and_other_control_keys_do_nothing() {
        let mut look = LiveLook::new(None);
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);

        assert_eq!(look.press(control('c'), 1, &[]), KeyRequest::Quit);
        assert_eq!(look.press(control('s'), 1, &[]), KeyRequest::Nothing);
        assert_eq!(press(&mut look, KeyCode::Char('q')), KeyRequest::Quit);
    }

    #[test]
    fn any_key_closes_the_help_and_still_does_its_own() {
        for code in [KeyCode::Tab, KeyCode::Char('?'), KeyCode::Esc] {
            let mut look = LiveLook::new(None);
            press(&mut look, KeyCode::Char('?'));
            assert!(look.shows_help);

            press(&mut look, code);

            assert!(!look.shows_help, "for {code}");
            assert_eq!(look.panel == Panel::Histogram, code == KeyCode::Tab);
        }
    }

    #[test]
    fn a_message_goes_with_the_next_key() {
        let mut look = LiveLook::new(None);
        look.message = Some("hello".into());
        press(&mut look, KeyCode::Null);

        assert_eq!(look.message, None);
    }
}
