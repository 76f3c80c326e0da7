//! BPF objects of the trials.

laggard_bpf::sources! {
    HANDOVER = "handover";
    HANDOVER_STOLEN = "handover_stolen";
    INTERRUPTION = "interruption";
    INTERRUPTION_DEVICE = "interruption_device";
    SOFTIRQ_ORDER = "softirq_order";
}

#[cfg(test)]
mod tests {
    use libbpf_rs::{MapType, ObjectBuilder};

    use super::*;

    /// A ring buffer or a perf buffer would wake a waiting thread.
    #[test]
    fn objects_have_no_buffer_that_wakes_a_thread() {
        for source in [
            HANDOVER,
            HANDOVER_STOLEN,
            INTERRUPTION,
            INTERRUPTION_DEVICE,
            SOFTIRQ_ORDER,
        ] {
            let open = ObjectBuilder::default()
                .open_memory((source.bytes)())
                .unwrap();
            for map in open.maps() {
                let wakes = matches!(
                    map.map_type(),
                    MapType::RingBuf
                        | MapType::PerfEventArray
                        | MapType::UserRingBuf
                        | MapType::ArrayOfMaps
                );
                assert!(!wakes, "{}: {:?}", source.name, map.name());
            }
        }
    }
}
