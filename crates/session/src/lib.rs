//! A measurement, from its plan to its end.
//!
//! A [`Plan`] defines the measurement and the data to keep. A [`Session`] prepares the probe and
//! the load, measures, and records if the plan requires it. A [`Watcher`] receives the data during
//! the measurement. There may be several: a progress bar, a live view, an exporter. All of it is on
//! the thread that calls [`Session::run`], at normal priority, and nothing ever waits for it; files
//! are written by separate threads.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use laggard_model::Nanos;
//! use laggard_session::{News, Next, Plan, Session, WatchError, Watcher};
//!
//! /// Counts what comes, and ends when it is enough.
//! struct Enough(usize);
//!
//! impl Watcher for Enough {
//!     fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
//!         self.0 = self.0.saturating_sub(news.batch.len());
//!         Ok(if self.0 == 0 { Next::End } else { Next::GoOn })
//!     }
//! }
//!
//! let plan = Plan {
//!     duration: None,
//!     ..Plan::default()
//! };
//! let interrupted = AtomicBool::new(false);
//! Session::ready(&plan, &interrupted)?.run(&mut [&mut Enough(10_000)])?;
//! # Ok::<(), laggard_session::SessionError>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod beginning;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod episodes;
mod error;
#[cfg(target_os = "linux")]
mod handlers;
mod keeper;
#[cfg(target_os = "linux")]
mod load;
mod load_ended;
#[cfg(target_os = "linux")]
mod on_late;
mod plan;
mod price;
mod run;
mod session;
mod system;
mod watcher;
mod writer;

#[cfg(not(target_os = "linux"))]
use elsewhere::{handlers, load};
pub use error::{SessionError, WatchError};
pub use load::Meanwhile;
pub use load_ended::Failure;
#[cfg(target_os = "linux")]
pub use on_late::{
    DescribeLate, LateAction, LateActionCounters, LateActions, LateCommandOutput, LateInput,
    OnLate, OnLateError,
};
pub use plan::{EpisodesChoice, LoadChoice, Plan, ProbeChoice};
pub use run::{LOOK_EVERY, ScriptPace};
pub use session::{Done, Session};
pub use watcher::{Ending, News, Next, Watcher};
