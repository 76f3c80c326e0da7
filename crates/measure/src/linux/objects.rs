//! The BPF objects of the probes.

laggard_bpf::sources! {
    IDENTITY = "identity";
    CHAIN = "chain";
    ARMING = "arming";
    LEARNING = "learning";
    EXTERNAL = "external";
    IRQ = "irq";
    RAISE = "raise";
    DEFERRED = "deferred";
    WORKER = "worker";
    WORKER_IMPLICIT = "worker_implicit";
    FLIGHT = "flight";
    STACKS = "stacks";
    STEAL = "steal";
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use libbpf_rs::{MapType, ObjectBuilder};

    use super::*;

    /// A ring buffer or a perf buffer wakes whoever waits for it. The only
    /// ones are those that wake measuring threads.
    #[test]
    fn no_object_has_a_buffer_that_could_wake_the_collector() {
        for source in [
            CHAIN,
            ARMING,
            EXTERNAL,
            IRQ,
            RAISE,
            DEFERRED,
            WORKER,
            WORKER_IMPLICIT,
            FLIGHT,
            STACKS,
            STEAL,
        ] {
            let open = ObjectBuilder::default().open_memory(source.bytes).unwrap();
            for map in open.maps() {
                let wakes = matches!(
                    map.map_type(),
                    MapType::RingBuf | MapType::PerfEventArray | MapType::UserRingBuf
                );
                assert!(!wakes, "{}: {:?}", source.name, map.name());
                let has_rings = map.map_type() == MapType::ArrayOfMaps;
                let is_doorbell = source.name == "deferred" && map.name() == OsStr::new("rings");
                assert!(
                    !has_rings || is_doorbell,
                    "{}: {:?}",
                    source.name,
                    map.name()
                );
            }
        }
    }
}
