//! `laggard serve`: measures for months and serves the metrics.
//!
//! Measuring consists of pieces. With a store, a piece is a recording of one hour (`--every`).
//! Without a store, a piece lasts a day. Each piece examines the machine again, because CPUs come
//! and go and the clock can be set, and ends in an orderly way.

#![forbid(unsafe_code)]

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

/// Stack size of a serving thread, bytes. The unused part is not resident until the next piece of
/// measuring locks all memory.
const STACK: usize = 512 << 10;

/// Measures and serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// If measuring cannot start on this machine, or if the server cannot start.
pub fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let mut web = Web::open(args.web_config.as_deref())?;
    if !args.listen.is_local() && !args.expose && !web.is_closed() {
        bail!(
            "other machines can reach {} and would read the names of processes, devices and kernel functions without a password or without encryption; give a file with both to --web-config, use --expose, or listen on 127.0.0.1",
            args.listen
        );
    }
    let interrupted = system::interruption()?;
    let push = Push::new(args)?;
    let metrics = Metrics::new(args.store.is_some(), push.as_ref().map(Push::series));
    let store = match &args.store {
        Some(dir) => Some(Store::open(dir, args.keep, metrics.store.clone())?),
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
    // Kept here, so that a socket is removed at the end.
    let listener = Arc::new(listener);
    let theirs = listener.clone();
    let end_guard = EndOnExit::new(interrupted.clone());
    let has_ended = end_guard.has_ended.clone();
    thread("laggard/http", move || {
        // Runs on every return path and on a panic.
        let _end_guard = end_guard;
        let err = http::serve(&theirs, &*shown, &mut web);
        pipe::say(&format!("no more answers: {err}"));
    })
    .context("cannot start the thread that answers")?;
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
    if has_ended.load(Ordering::Relaxed) {
        bail!("the server thread has ended, so no request could be served");
    }
    Ok(())
}

/// Ends measuring when it is dropped. A service manager can then restart the program.
struct EndOnExit {
    has_ended: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl EndOnExit {
    fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self {
            has_ended: Arc::default(),
            interrupted,
        }
    }
}

impl Drop for EndOnExit {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.interrupted.store(true, Ordering::Relaxed);
    }
}

fn listen(listen: &ListenArg) -> anyhow::Result<Listener> {
    let listener = match listen {
        ListenArg::Tcp(address) => Listener::tcp(*address),
        ListenArg::Unix(path) => Listener::unix(path),
    };
    listener.with_context(|| format!("cannot listen on {listen}; choose another with --listen"))
}

/// Starts a thread with the CPU share that this program had at its start. The thread ends with the
/// program.
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
    fn panic_of_the_server_thread_ends_measuring() {
        let interrupted = Arc::new(AtomicBool::new(false));
        let end_guard = EndOnExit::new(interrupted.clone());
        let has_ended = end_guard.has_ended.clone();

        let answering = std::thread::spawn(move || {
            let _end_guard = end_guard;
            panic!("on purpose");
        });

        assert!(answering.join().is_err());
        assert!(has_ended.load(Ordering::Relaxed));
        assert!(interrupted.load(Ordering::Relaxed));
    }
}
