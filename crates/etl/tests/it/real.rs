//! Real traces of Windows; their sources are in `traces/README.md`.

use std::collections::BTreeMap;
use std::io::Cursor;

use crate::traces::unpacked;
use laggard_etl::{
    Decoded, EventName, KernelEvent, ProviderId, Trace, TraceClock, TraceDamage, TraceEvent,
    TraceTally, decode,
};

/// `TraceEvent`'s names of the kernel events, with group and type, and of the events of
/// the provider of `SysConfig`, which have another form.
const NAMES: [(&str, u8, u8); 41] = [
    ("DiskIO/FlushBuffers", 1, 14),
    ("DiskIO/FlushInit", 1, 15),
    ("DiskIO/Read", 1, 10),
    ("DiskIO/ReadInit", 1, 12),
    ("DiskIO/Write", 1, 11),
    ("DiskIO/WriteInit", 1, 13),
    ("EventTrace", 0, 0),
    ("EventTrace/EndExtension", 0, 32),
    ("EventTrace/Extension", 0, 5),
    ("EventTrace/RundownComplete", 0, 8),
    ("Image/DCStart", 20, 3),
    ("Image/DCStop", 20, 4),
    ("Image/Unload", 20, 2),
    ("Image/Load", 3, 10),
    ("Memory/HardFault", 2, 32),
    ("PerfInfo/CollectionEnd", 15, 74),
    ("PerfInfo/CollectionStart", 15, 73),
    ("Process/DCStart", 3, 3),
    ("Process/DCStop", 3, 4),
    ("Process/Defunct", 3, 39),
    ("Process/PerfCtr", 3, 32),
    ("Process/PerfCtrRundown", 3, 33),
    ("Process/Start", 3, 1),
    ("Process/Stop", 3, 2),
    ("SystemConfig/CPU", 11, 10),
    ("SystemConfig/IDEChannel", 11, 23),
    ("SystemConfig/LogDisk", 11, 12),
    ("SystemConfig/NIC", 11, 13),
    ("SystemConfig/Network", 11, 17),
    ("SystemConfig/PhyDisk", 11, 11),
    ("SystemConfig/PnP", 11, 22),
    ("SystemConfig/Power", 11, 16),
    ("SystemConfig/Services", 11, 15),
    ("TcpIp/RecvIPV6", 6, 27),
    ("TcpIp/SendIPV6", 6, 26),
    ("Thread/Start", 5, 1),
    ("Thread/Stop", 5, 2),
    ("UdpIp/Recv", 8, 11),
    ("UdpIp/RecvIPV6", 8, 27),
    ("UdpIp/Send", 8, 10),
    ("UdpIp/SendIPV6", 8, 26),
];
const OF_PROVIDER: [(&str, u8); 5] = [
    ("SysConfig/BuildInfo", 32),
    ("SysConfig/SystemPaths", 33),
    ("SysConfig/UnknownVolume", 34),
    ("SysConfig/VolumeMapping", 35),
    ("SysConfig/Opcode(37)", 37),
];
/// {9b79ee91-b5fd-41c0-a243-4248e266e9d0}
const PROVIDER: ProviderId = ProviderId([
    0x91, 0xee, 0x79, 0x9b, 0xfd, 0xb5, 0xc0, 0x41, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0,
]);

/// Returns the counts of the other decoder, such as `Windows Kernel/Image/Load:35`.
fn expected() -> BTreeMap<&'static str, u64> {
    include_str!("traces/net-kernel.counts.txt")
        .lines()
        .filter_map(|line| {
            let (name, count) = line
                .strip_prefix("COUNT Windows Kernel/")?
                .rsplit_once(':')?;
            Some((name, count.parse().unwrap()))
        })
        .collect()
}

/// Returns the other decoder's name of `event`; `None` if it is not in its list.
fn name_of(event: &TraceEvent<'_>) -> Option<&'static str> {
    match event.name {
        EventName::Kernel { group, opcode } => NAMES
            .iter()
            .find(|name| (name.1, name.2) == (group, opcode))
            .map(|name| name.0),
        EventName::Classic { provider, opcode } if provider == PROVIDER => OF_PROVIDER
            .iter()
            .find(|name| name.1 == opcode)
            .map(|name| name.0),
        _ => None,
    }
}

#[test]
fn kernel_events_equal_those_of_another_decoder() {
    let mut trace = Trace::open(Cursor::new(unpacked("net-kernel"))).unwrap();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut last = i64::MIN;
    trace
        .visit(|event| {
            assert!(event.ticks >= last, "{event:?} is before {last}");
            last = event.ticks;
            let is_sample = matches!(
                decode(event),
                Decoded::Known(KernelEvent::Sample { thread, in_dpc, in_isr, .. })
                    if thread != 0 || in_dpc || in_isr
            );
            let name = if is_sample {
                Some("PerfInfo/Sample")
            } else {
                name_of(event)
            };
            if let Some(name) = name {
                *counts.entry(name).or_default() += 1;
            }
        })
        .unwrap();

    assert_eq!(counts, expected());
    assert_eq!(trace.damage(), &TraceDamage::default());
    let header = trace.header();
    assert_eq!(
        (header.windows, header.build, header.cpus),
        ((6, 2), 9200, 8)
    );
    assert_eq!(
        (header.clock, header.hz),
        (TraceClock::PerformanceCounter, 10_000_000)
    );
    assert_eq!((header.events_lost, header.buffers_lost), (0, 0));
    assert_eq!(header.session, "Relogger");
}

#[test]
fn threads_and_pages_of_a_real_trace_are_counted() {
    let mut trace = Trace::open(Cursor::new(unpacked("net-kernel"))).unwrap();
    let mut tally = TraceTally::new(trace.header());
    trace.visit(|event| tally.add(event)).unwrap();

    assert_eq!((tally.unreadable, tally.implausible), (0, 0));
    let faults: Vec<_> = tally
        .threads
        .threads()
        .filter(|thread| thread.faults.count() > 0)
        .collect();
    assert_eq!(
        faults
            .iter()
            .map(|thread| thread.faults.count())
            .sum::<u64>(),
        153
    );
    assert!(
        faults.iter().all(|thread| thread.name.is_some()),
        "{faults:?}"
    );
    assert_eq!(tally.samples.total, 79_528);
    assert_eq!(tally.samples.idle, 73_208);
    assert_eq!((tally.samples.in_dpc, tally.samples.in_isr), (107, 28));
}

#[test]
fn uncompressed_trace_is_read_completely() {
    let mut trace = Trace::open(Cursor::new(unpacked("diaghub.kernel.1"))).unwrap();
    let mut counts: BTreeMap<(u8, u8), u64> = BTreeMap::new();
    let mut total = 0;
    trace
        .visit(|event| {
            total += 1;
            assert_ne!(decode(event), Decoded::Unreadable, "{event:?}");
            if let EventName::Kernel { group, opcode } = event.name {
                *counts.entry((group, opcode)).or_default() += 1;
            }
        })
        .unwrap();

    assert_eq!(trace.damage(), &TraceDamage::default());
    assert_eq!(trace.header().windows, (10, 0));
    // Image/Load, Unload, DCStart, DCStop; Process/DCStart; Process/Start.
    let numbers = [(3, 10), (20, 2), (20, 3), (20, 4), (3, 3), (3, 1)].map(|kind| counts[&kind]);
    assert_eq!(numbers, [87, 143, 187, 15_017, 223, 18]);
    assert_eq!(
        total,
        1 + counts.values().sum::<u64>(),
        "one is no event of the kernel"
    );
}
