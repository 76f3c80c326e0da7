//! Activity of a CPU: a thread with the interrupts above it, and call chains.

use laggard_analyze::causes::Context;
use laggard_model::{StackSample, Symbols, name, printable};
use schemars::JsonSchema;
use serde::Serialize;

/// Thread on a CPU, or an activity that interrupted it.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Layer {
    /// No thread ran.
    Idle,
    /// It is not known which thread ran.
    Unknown,
    Thread {
        name: String,
        /// Priority in the kernel: below 0 for `SCHED_DEADLINE`, 99 less the real-time
        /// priority up to 99, 100 or more for `SCHED_OTHER`. On Windows, see
        /// [`laggard_model::windows_level`].
        priority: i16,
    },
    /// An interrupt, softirq or function.
    Activity { name: String },
}

/// Returns the thread and its interruptions, from the outside in.
pub fn layers(context: &Context, symbols: &Symbols) -> Vec<Layer> {
    let thread = match &context.thread {
        Some(thread) if thread.tid.0 == 0 => Layer::Idle,
        Some(thread) => Layer::Thread {
            name: printable(&thread.name).to_string(),
            priority: thread.priority,
        },
        None => Layer::Unknown,
    };
    let activities = context.activities().into_iter();
    let names = activities.map(|open| Layer::Activity {
        name: name::activity_name(open.activity, symbols),
    });
    std::iter::once(thread).chain(names).collect()
}

/// Returns the functions of a sample, innermost first.
pub fn frames(sample: &StackSample, symbols: &Symbols) -> Vec<String> {
    let kernel = sample
        .kernel
        .iter()
        .map(|&at| printable(&symbols.kernel_name(at)).to_string());
    let user = sample
        .user
        .iter()
        .map(|&at| printable(&symbols.user_name(sample.process, at)).to_string());
    kernel.chain(user).collect()
}
