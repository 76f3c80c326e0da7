//! The end of `laggard record`: its result.

use std::path::Path;

use laggard_answer::show::{By, report};
use laggard_answer::{Trust, overview};
use laggard_model::text::Unit;
use laggard_record::Recording;
use laggard_view::doc::{self, Detail};
use laggard_view::overview::document;
use laggard_view::trust;

use crate::exit::Exit;
use crate::{ask, pipe, system, terminal};

/// Shows the result. With `quiet`, shows only the reasons why it is not trustworthy.
pub(crate) fn finish(dir: &Path, quiet: bool) -> anyhow::Result<Exit> {
    // The measurement is over, and its memory is not locked.
    system::keep_free_memory();
    let recording = Recording::open(dir)?;
    let trust = if quiet {
        // Causes would take longer than all the rest, and are not printed.
        let trust = report(&recording, By::Service, ask::threads())?.trust;
        if let Some(reasons) = trust::reasons(&trust) {
            pipe::say(&format!(
                "`{}` is not trustworthy: {reasons}",
                dir.display()
            ));
        }
        trust
    } else {
        let (report, overview) = overview::read(&recording, None, ask::threads())?;
        let look = terminal::look(Unit::Auto);
        let document = document(&overview, Detail::Short);
        pipe::print_screen(&doc::terminal(&document, look))?;
        report.trust
    };
    Ok(match trust {
        Trust::Good => Exit::Ok,
        Trust::None(_) => Exit::Untrustworthy,
    })
}
