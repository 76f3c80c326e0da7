//! `attach --also`: services of laggard, measured at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail};
use laggard_answer::attach::AttachBeside;
use laggard_answer::live::{Live, Window};
use laggard_model::{Nanos, Service};
use laggard_session::{
    Ending, EpisodesChoice, News, Next, Plan, Session, SessionError, WatchError, Watcher,
};

use crate::{measuring, pipe};

/// Measurement of the services, on a separate thread.
#[derive(Debug)]
pub(super) struct AlsoMeasured {
    services: Vec<Service>,
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<Live, SessionError>>,
}

/// Gathers the samples and reports the start.
struct AlsoWatch {
    live: Live,
    begun: Sender<()>,
}

impl Watcher for AlsoWatch {
    fn begun(&mut self, _: Nanos) {
        // The receiver is gone if the program ends.
        let _ = self.begun.send(());
    }

    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        let times = (news.start, news.now);
        self.live
            .observe(news.batch, Vec::new(), news.losses, times);
        if self.live.wants_cost() {
            self.live.cost = Some((news.cost)());
        }
        Ok(Next::GoOn)
    }

    fn say(&mut self, text: &str) {
        pipe::say(text);
    }

    fn end(&mut self, ending: &Ending) {
        let cost = ending.cost.clone();
        self.live.end(&ending.caveats, ending.losses, cost);
    }
}

impl AlsoMeasured {
    /// Starts the measurement, and returns when it has started.
    ///
    /// # Errors
    /// If one of the services cannot be measured here.
    pub(super) fn start(services: &[Service]) -> anyhow::Result<Self> {
        let plan = measuring::by_this_program(Plan {
            services: Some(services.to_vec()),
            episodes: EpisodesChoice::Off,
            stack_rate: 0,
            duration: None,
            ..Plan::default()
        });
        let end = Arc::new(AtomicBool::new(false));
        let (begun, has_begun) = mpsc::channel();
        let thread = {
            let end = Arc::clone(&end);
            let thread = thread::Builder::new().name("laggard/also".into());
            thread.spawn(move || {
                let session = Session::ready(&plan, &end)?;
                let live = Live::new(session.manifest(), Nanos::from_secs(1));
                let mut watch = AlsoWatch { live, begun };
                session.run(&mut [&mut watch])?;
                Ok(watch.live)
            })
        };
        let also = Self {
            services: services.to_vec(),
            end,
            thread: thread.context("cannot start a thread for --also")?,
        };
        match has_begun.recv() {
            Ok(()) => Ok(also),
            Err(_) => also
                .end()
                .and_then(|_| bail!("--also ended before it started")),
        }
    }

    /// Ends the measurement and returns its results.
    ///
    /// # Errors
    /// If it failed or ended early.
    pub(super) fn end(self) -> anyhow::Result<Vec<AttachBeside>> {
        self.end.store(true, Ordering::Relaxed);
        let Ok(measured) = self.thread.join() else {
            bail!("--also: its thread ended by an error in laggard");
        };
        let live = measured.context("--also")?;
        let judged = live.judge();
        let doubts = judged.trust.reasons();
        let period = live.manifest.plan.period_ns;
        // The timer interrupt is measured with each service, also if it was not requested.
        let rows = live.rows(None).into_iter();
        let measured = rows.filter(|row| self.services.contains(&row.way.0));
        let rows = measured.map(|row| {
            let (service, route) = row.way;
            AttachBeside::new(
                service,
                route,
                period,
                &live.histogram(row.way, None, Window::Start),
                row.missed,
                doubts.to_vec(),
            )
        });
        Ok(rows.collect())
    }
}
