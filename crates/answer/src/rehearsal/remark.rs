//! What there is to say of a task's prediction.

use std::fmt::{self, Display, Formatter};

use laggard_model::text::Unit;
use laggard_model::{ModelledTask, Nanos, Service, TaskCount};
use serde::{Serialize, Serializer};

use crate::qos::Coarse;

/// Why a prediction is coarse, or of something else than what was counted.
/// Serialized in words.
#[derive(Clone, Debug, PartialEq)]
pub enum Remark {
    /// The task's service was not recorded.
    OtherService {
        /// The one that the prediction is from.
        by: Service,
        /// The task's.
        service: Service,
    },
    /// The recordings tell little of its slack.
    Coarse(Coarse),
    /// The service was still waiting when the first recording ended.
    Waiting {
        /// The service.
        by: Service,
        /// For so long by then.
        waited: Nanos,
    },
    /// A normal thread shares the CPU while it computes.
    SharesCpu,
    /// Its work took longer than it was to.
    LongWork {
        /// In the median.
        took: Nanos,
        /// As asked for.
        asked: Nanos,
    },
    /// It had so many page faults.
    PageFaults(u64),
    /// Tasks of this CPU that are as urgent or more.
    Beside(Vec<String>),
}

impl Remark {
    /// Why the task that ran is not the one that was predicted.
    pub(super) fn unlike(count: &TaskCount) -> Vec<Self> {
        let task = &count.task;
        let took = count.median_work_ns;
        let is_long = took.ns() > task.compute_ns.ns() / 10 * 11;
        [
            (task.service == Service::Other).then_some(Self::SharesCpu),
            is_long.then_some(Self::LongWork {
                took,
                asked: task.compute_ns,
            }),
            (count.page_faults > 0).then_some(Self::PageFaults(count.page_faults)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Other tasks on the same CPU are not in the prediction of a lower one.
    pub(super) fn beside(task: &ModelledTask, all: &[TaskCount]) -> Option<Self> {
        let names: Vec<String> = all
            .iter()
            .map(|one| &one.task)
            .filter(|one| one.cpu == task.cpu && one.name != task.name)
            .filter(|one| one.service.urgency() >= task.service.urgency())
            .map(|one| one.name.clone())
            .collect();
        (!names.is_empty()).then_some(Self::Beside(names))
    }
}

impl Display for Remark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let write = |time: Nanos| Unit::Auto.write_nanos(time);
        match self {
            Self::OtherService { by, service } => {
                write!(f, "predicted from `{by}`, because `{service}` was not recorded")
            }
            Self::Coarse(coarse) => coarse.fmt(f),
            Self::Waiting { by, waited } => write!(
                f,
                "`{by}` was still waiting when the first recording ended, for {} by then: at least as many misses are to \
                 be expected as predicted",
                write(*waited)
            ),
            Self::SharesCpu => f.write_str(
                "a normal thread that computes shares the CPU with others, which its wakeup latency does not tell: expect \
                 more misses than predicted",
            ),
            Self::LongWork { took, asked } => write!(
                f,
                "its work took {} in the median instead of {}: a slower or shared processor, or interruptions",
                write(*took),
                write(*asked)
            ),
            Self::PageFaults(faults) => write!(f, "it had {faults} page faults"),
            Self::Beside(names) => write!(
                f,
                "predicted as if alone, but runs below or beside {} on the same CPU; `analysis` has them",
                names.join(", ")
            ),
        }
    }
}

impl Serialize for Remark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
