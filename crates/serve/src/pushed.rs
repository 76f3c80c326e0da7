//! Data for an `OpenTelemetry` collector, if the user names one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use laggard_console::pipe;
use laggard_model::Host;
use laggard_otlp::{
    OtlpSender, OtlpSeries, OtlpTarget, QueueLimits, ResourceFacts, SenderParts, SpanQueue,
    new_instance,
};
use prometheus_client::encoding::prometheus_protobuf::encode;

use crate::args::ServeArgs;
use crate::shown::ServedState;
use crate::thread;

/// Directory of the queue in the store. No recording has this name.
const QUEUE: &str = ".otlp";
/// Maximum wait for the last requests at the end. It is longer than two requests usually take. A
/// request that started earlier may take longer and is not awaited: its data is in the queue on
/// disk, if there is one.
const MAX_END_TIME: Duration = Duration::from_secs(3);

/// Target of the data, before measuring starts.
pub(crate) struct Push {
    target: OtlpTarget,
    series: OtlpSeries,
    began: SystemTime,
}

/// Running sender thread.
pub(crate) struct Pushing {
    target: String,
    shown: Arc<ServedState>,
    ended: Receiver<()>,
}

impl Push {
    /// Creates the target that the arguments or the environment name; `None` if neither names one.
    pub(crate) fn new(args: &ServeArgs) -> anyhow::Result<Option<Self>> {
        let environment = |name: &str| std::env::var(name).ok();
        let target = OtlpTarget::new(args.otlp.as_deref(), environment);
        let target = target.context("cannot send by OTLP (--otlp)")?;
        Ok(target.map(|target| Self {
            target,
            series: OtlpSeries::default(),
            began: SystemTime::now(),
        }))
    }

    pub(crate) const fn series(&self) -> &OtlpSeries {
        &self.series
    }

    /// Starts to send the data of `shown`.
    pub(crate) fn start(
        self,
        args: &ServeArgs,
        host: &Host,
        shown: &Arc<ServedState>,
    ) -> anyhow::Result<Pushing> {
        let instance = new_instance().context("cannot create an ID for this run")?;
        let facts = ResourceFacts {
            host_name: host.node.clone(),
            host_id: machine_id(),
            architecture: host.architecture.clone(),
            kernel: host.kernel.clone(),
            distribution: host.distribution.clone(),
            instance: instance.clone(),
            said: self.target.said().to_vec(),
        };
        let place: Option<PathBuf> = args.store.as_ref().map(|store| store.join(QUEUE));
        let limits = QueueLimits::default();
        let queue = SpanQueue::open(place.as_deref(), limits, self.series.clone())?;
        let registry = shown.registry();
        let target = self.target.in_words();
        let (sender, handover) = OtlpSender::new(SenderParts {
            target: self.target,
            resource: facts.resource(),
            instance,
            began: self.began,
            queue,
            series: self.series,
            snapshot: Box::new(move || encode(&registry).expect("memory is written to")),
            say: pipe::say,
        })?;
        let (tell, ended) = channel();
        thread("laggard/otlp", move || {
            sender.run();
            // The receiver is gone if the end took too long.
            let _ = tell.send(());
        })
        .context("cannot start the thread that sends")?;
        shown.seen().handover = Some(handover);
        Ok(Pushing {
            target,
            shown: shown.clone(),
            ended,
        })
    }
}

impl Pushing {
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Sends the remaining data once more, with a short time limit.
    pub(crate) fn end(self) {
        self.shown.seen().handover = None;
        if self.ended.recv_timeout(MAX_END_TIME).is_err() {
            pipe::say("OTLP: the collector takes too long; the last series are not sent");
        }
    }
}

/// Returns the ID that distinguishes this machine from all others, if it has one.
fn machine_id() -> Option<String> {
    let text = std::fs::read_to_string("/etc/machine-id").ok()?;
    let id = text.trim();
    let is_one = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| id.to_owned())
}
