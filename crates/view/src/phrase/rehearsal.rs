//! Sentences of `laggard rehearse`.

use laggard_answer::rehearsal::Remark;

use super::{code, qos};
use crate::doc::Cell;

/// States why a prediction is coarse, or is not one of the counted quantity.
pub(crate) fn remark(remark: &Remark) -> String {
    match remark {
        Remark::OtherService { by, service } => {
            format!("predicted from `{by}`, because `{service}` was not recorded")
        }
        Remark::Coarse {
            slack_ns,
            resolution,
        } => qos::resolution(resolution, *slack_ns).unwrap_or_default(),
        Remark::Waiting { by, waited_ns } => format!(
            "`{by}` was still waiting when the first recording ended, for {} by then: expect at least the predicted misses",
            Cell::Time(*waited_ns)
        ),
        Remark::SharesCpu => {
            "a SCHED_OTHER thread shares the CPU while it computes, which its wakeup latency does not include: expect more misses than predicted".into()
        }
        Remark::LongWork {
            median_ns,
            requested_ns,
        } => format!(
            "its work took {} (median) instead of {}: a slower or shared processor, or interruptions",
            Cell::Time(*median_ns),
            Cell::Time(*requested_ns)
        ),
        Remark::PageFaults { count } => format!("it had {} page faults", Cell::Count(*count)),
        Remark::Beside { tasks } => {
            let tasks: Vec<String> = tasks.iter().map(|task| code(task)).collect();
            format!(
                "predicted without other tasks, but {} on the same CPU can delay it; `analysis` includes them",
                tasks.join(", ")
            )
        }
    }
}
