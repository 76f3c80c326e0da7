//! Measurements and screens for the tests of the live view.

use laggard_answer::live::Live;
use laggard_model::{Backend, Clock, Cpu, Line, Manifest, Nanos, ProbePlan, Route, Service};
use laggard_view::text::Look;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::look::LiveLook;
use super::panel::{Palette, Shown, draw};

pub(super) const START: Nanos = Nanos::from_secs(1_000);
/// Number of series.
pub(super) const LINES: u16 = 4;

/// Returns a measurement of two services on two CPUs.
pub(super) fn manifest() -> Manifest {
    let services = [Service::Fifo(90), Service::Other];
    let lines = services
        .into_iter()
        .flat_map(|service| [Cpu(0), Cpu(1)].map(|cpu| Line::new(cpu, service, Route::Direct)));
    let clock = Clock::monotonic(START, "2026-01-01T00:00:00Z");
    Manifest::new(Backend::Bpf, ProbePlan::default(), clock, lines.collect())
}

/// Returns the summary at the end.
pub(super) fn summary(state: &Live) -> String {
    laggard_view::doc::terminal(&laggard_view::live_summary(state), Look::default()).plain()
}

/// Returns the screen without colours.
pub(super) fn screen((width, height): (u16, u16), state: &Live, look: &LiveLook) -> String {
    let rows = state.rows(look.cpu);
    let shown = Shown {
        state,
        look,
        rows: &rows,
        palette: Palette::plain(),
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &shown)).unwrap();
    terminal.backend().to_string()
}
