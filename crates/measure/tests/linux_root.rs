//! A real measurement on this machine. Needs root and a kernel with BTF.

use std::time::Duration;

use laggard_measure::linux::{LinuxProbe, Wanted, online_cpus};
use laggard_measure::{Probe, Request};
use laggard_model::{Activation, Batch, Line, Losses, Nanos, Route, Service, Stage};

const PERIOD: Nanos = Nanos::from_ms(1);

fn request(services: &[Service]) -> Request {
    Request {
        cpus: online_cpus(),
        services: services.to_vec(),
        optional: true,
        period: PERIOD,
        dither: true,
        seed: 1,
    }
}

fn measure(services: &[Service], wanted: Wanted, time: Duration) -> (Vec<Line>, Batch, Losses, LinuxProbe) {
    let mut probe = LinuxProbe::new(request(services), wanted).unwrap();
    let mut batch = Batch::default();
    probe.start().unwrap();
    probe.pause(time);
    probe.drain(&mut batch);
    probe.stop();
    probe.drain(&mut batch);
    (probe.lines().to_vec(), batch, probe.losses(), probe)
}

#[test]
fn every_line_is_served_and_its_stages_come_in_order() {
    let services = "irq,softirq,worker,fifo:90,fifo:50,other";
    let services: Vec<Service> = services.split(',').map(|name| name.parse().unwrap()).collect();

    let (lines, batch, losses, probe) = measure(&services, Wanted::Best, Duration::from_secs(2));
    println!("{:#?}", probe.caveats());
    println!("{losses:?}\n{:#?}", probe.cost());
    for (index, line) in lines.iter().enumerate() {
        let of_line: Vec<Activation> =
            batch.iter().filter(|one| usize::from(one.line.0) == index).collect();
        let missed = of_line.iter().filter(|one| one.missed).count();
        println!("{} {} {} n {} missed {missed}", line.cpu, line.service, line.route, of_line.len());
        for stage in laggard_model::STAGES {
            let mut steps: Vec<u64> = of_line
                .iter()
                .filter(|one| !one.missed)
                .filter_map(|one| one.steps[stage.index()])
                .map(Nanos::ns)
                .collect();
            steps.sort_unstable();
            if let (Some(min), Some(max)) = (steps.first(), steps.last()) {
                println!("   {stage:8} n {:6} min {min:7} med {:7} p99 {:7} max {max}", steps.len(), steps[steps.len() / 2], steps[steps.len() * 99 / 100]);
            }
        }
    }
    let _ = (Route::Direct, Stage::User);
}
