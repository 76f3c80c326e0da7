//! Services that cannot be measured, and services without BPF.

use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_measure::{Probe as _, ProbeError, Request};
use laggard_model::{Batch, Nanos, Service, Stage};

use super::{TIME, request};

#[test]
fn irq_service_is_refused_without_its_stage() {
    let refused = LinuxProbe::new(
        Request {
            stages: Some(vec![Stage::Expire]),
            optional: Vec::new(),
            ..request("irq,fifo:90")
        },
        BackendChoice::Best,
    );

    assert_eq!(
        refused.unwrap_err().to_string(),
        "cannot measure `irq`: its stage is excluded; add irq to the stages, or remove it from the services"
    );
}

#[test]
fn only_thread_services_and_their_user_stage_remain_without_bpf() {
    let mut probe = LinuxProbe::new(request("irq,softirq,other"), BackendChoice::User).unwrap();
    let mut batch = Batch::default();

    probe.start().unwrap();
    probe.pause(TIME / 4);
    probe.stop();
    probe.drain(&mut batch);

    assert!(
        probe
            .lines()
            .iter()
            .all(|line| line.service == Service::Other)
    );
    assert!(batch.len() > 50, "{}", batch.len());
    assert!(
        batch
            .iter()
            .all(|activation| activation.latency_of(Service::Other).is_some())
    );
    assert!(
        batch
            .iter()
            .all(|activation| activation.steps[Stage::Irq.index()].is_none())
    );
}

#[test]
fn named_service_is_refused_if_it_is_not_available() {
    let mut request = request("softirq");
    request.optional.clear();

    let err = LinuxProbe::new(request, BackendChoice::User).unwrap_err();

    assert!(matches!(err, ProbeError::Service { .. }));
    assert_eq!(
        err.to_string(),
        "cannot measure `softirq`: it needs BPF; run as root on a kernel with BTF, without `--backend user` or `--backend perf`"
    );
}

/// All missing services are named together, and no optional service.
#[test]
fn every_unavailable_service_is_named_with_one_remedy() {
    let mut request = request("irq,softirq,worker,other");
    request.optional = vec![Service::Irq];

    let err = LinuxProbe::new(request, BackendChoice::User).unwrap_err();

    assert_eq!(
        err.to_string(),
        "cannot measure `softirq`: it needs BPF, nor `worker`: it needs BPF; run as root on a kernel with BTF, without `--backend user` or `--backend perf`"
    );
}

#[test]
fn offline_cpu_and_period_out_of_range_are_refused() {
    let mut offline = request("other");
    offline.cpus = "4095".parse().unwrap();
    let mut short = request("other");
    short.period = Nanos::from_us(1);

    assert!(matches!(
        LinuxProbe::new(offline, BackendChoice::User),
        Err(ProbeError::NoCpu(4095, _))
    ));
    assert!(matches!(
        LinuxProbe::new(short, BackendChoice::User),
        Err(ProbeError::Period(..))
    ));
}
