//! `attach --also`: threads and handlers of our own, measured beside those that are
//! watched.

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

/// What is measured beside, on a thread of its own.
#[derive(Debug)]
pub(super) struct AlsoMeasured {
    services: Vec<Service>,
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<Live, SessionError>>,
}

/// Gathers what comes, and says when it begins.
struct AlsoWatch {
    live: Live,
    begun: Sender<()>,
}

impl Watcher for AlsoWatch {
    fn begun(&mut self, _: Nanos) {
        // Who asked waits for it, unless the program ends.
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
    /// Begins; comes back when it has begun.
    ///
    /// # Errors
    /// When one of the services cannot be measured here.
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
                let mut seen = AlsoWatch { live, begun };
                session.run(&mut [&mut seen])?;
                Ok(seen.live)
            })
        };
        let also = Self {
            services: services.to_vec(),
            end,
            thread: thread.context("start a thread for --also")?,
        };
        match has_begun.recv() {
            Ok(()) => Ok(also),
            // It has ended before.
            Err(_) => also
                .end()
                .and_then(|_| bail!("--also ended before it began")),
        }
    }

    /// Ends it: what was measured.
    ///
    /// # Errors
    /// When it had to end before, or failed.
    pub(super) fn end(self) -> anyhow::Result<Vec<AttachBeside>> {
        self.end.store(true, Ordering::Relaxed);
        let Ok(measured) = self.thread.join() else {
            bail!("--also: its thread ended by a fault of laggard");
        };
        let live = measured.context("--also")?;
        let judged = live.judge();
        let doubt = judged.trust.reasons().map(|reasons| reasons.to_string());
        let period = live.manifest.plan.period_ns;
        // The interrupt of all their timers is measured with them, asked for or not.
        let rows = live.rows(None).into_iter();
        let asked = rows.filter(|row| self.services.contains(&row.way.0));
        let rows = asked.map(|row| {
            let (service, route) = row.way;
            AttachBeside::new(
                service,
                route,
                period,
                &live.histogram(row.way, None, Window::Start),
                row.missed,
                doubt.clone(),
            )
        });
        Ok(rows.collect())
    }
}
