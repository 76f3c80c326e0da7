//! `laggard serve`: measure for months, and answer who asks.
//!
//! Measuring goes on in pieces: one an hour where there is a store, whose recordings
//! they are, else one a day. Each looks at the machine anew (CPUs come and go, the
//! clock is set), and ends in order.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod args;
mod cpus;
mod culprits;
mod early_end;
mod exporter;
mod http;
mod metrics;
mod notify;
mod pieces;
mod pushed;
mod resident;
mod shown;
mod store;
mod web;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use laggard_measure::linux;
use laggard_model::printable;

pub use args::{ListenArg, SERVE_EXAMPLES, ServeArgs};
use http::Listener;
use laggard_console::on_late::OnLateRun;
use laggard_console::{pipe, system};
use laggard_session::LateCommandOutput;
use metrics::Metrics;
use pieces::ServedPieces;
use pushed::Push;
use shown::ServedState;
use store::Store;
use web::Web;

/// Stack of a thread that serves, bytes. What it does not use is not kept in memory
/// until the next piece of measuring locks it.
const STACK: usize = 512 << 10;

/// Measures, and answers, until Ctrl-C or SIGTERM.
///
/// # Errors
/// When measuring cannot begin here, or nobody can be answered.
pub fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let mut web = Web::open(args.web_config.as_deref())?;
    if !args.listen.is_local() && !args.expose && !web.is_closed() {
        bail!(
            "{} is reached from other machines, which would read the names of processes, devices \
             and kernel functions here, without a password, or in the clear; give --web-config a \
             file with both, say --expose, or listen on 127.0.0.1",
            args.listen
        );
    }
    let interrupted = system::interruption()?;
    let push = Push::new(args)?;
    let metrics = Metrics::new(args.store.is_some(), push.as_ref().map(Push::series));
    let store = match &args.store {
        Some(dir) => Some(Store::open(dir, args.keep.0, metrics.store.clone())?),
        None => None,
    };
    let listener = listen(&args.listen)?;
    let address = listener.address(web.has_tls())?;
    let shown = Arc::new(ServedState::new(metrics));
    let late = OnLateRun::start(&args.late, LateCommandOutput::StandardError, &interrupted)?;
    let pieces = ServedPieces::new(args, store, late, shown.clone());
    let served = pieces.ready(&interrupted)?;
    let pushing = match push {
        Some(push) => Some(push.start(args, served.host(), &shown)?),
        None => None,
    };
    // Held here, so that a socket of ours is removed at the end.
    let listener = Arc::new(listener);
    let theirs = listener.clone();
    let deaf = Deaf::new(interrupted.clone());
    let is_deaf = deaf.is_deaf.clone();
    thread("laggard/http", move || {
        // However it ends.
        let _deaf = deaf;
        let err = http::serve(&theirs, &*shown, &mut web);
        pipe::say(&format!("no more answers: {err}"));
    })
    .context("start the thread that answers")?;
    pipe::print(&format!(
        "laggard serve: {}\nAnswers at {}: /metrics, /episodes, /healthz, and a page\n",
        served.in_words(),
        printable(&address)
    ))?;
    if let Some(pushing) = &pushing {
        pipe::print(&format!("Sends to {}\n", printable(pushing.target())))?;
    }
    served.run(&interrupted)?;
    notify::stopping();
    if let Some(pushing) = pushing {
        pushing.end();
    }
    drop(listener);
    if is_deaf.load(Ordering::Relaxed) {
        bail!("the thread that answers has ended, so nobody could be answered any more");
    }
    Ok(())
}

/// Ends measuring as it is dropped: who starts this program again has answers again.
struct Deaf {
    is_deaf: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Deaf {
    fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self {
            is_deaf: Arc::default(),
            interrupted,
        }
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.is_deaf.store(true, Ordering::Relaxed);
        self.interrupted.store(true, Ordering::Relaxed);
    }
}

fn listen(listen: &ListenArg) -> anyhow::Result<Listener> {
    let listener = match listen {
        ListenArg::Tcp(address) => Listener::tcp(*address),
        ListenArg::Unix(path) => Listener::unix(path),
    };
    listener.with_context(|| format!("listen on {listen}; choose another with --listen"))
}

/// Starts a thread that has the share of a CPU that this program was started with, and
/// ends with it.
fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.into());
    builder.stack_size(STACK).spawn(move || {
        linux::take_usual_share();
        linux::let_stack_go();
        run();
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_answer_nobody_ends_measuring_even_by_a_panic() {
        let interrupted = Arc::new(AtomicBool::new(false));
        let deaf = Deaf::new(interrupted.clone());
        let is_deaf = deaf.is_deaf.clone();

        let answering = std::thread::spawn(move || {
            let _deaf = deaf;
            panic!("on purpose");
        });

        assert!(answering.join().is_err());
        assert!(is_deaf.load(Ordering::Relaxed));
        assert!(interrupted.load(Ordering::Relaxed));
    }
}
