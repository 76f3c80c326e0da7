//! BPF objects of the probes.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Struct, Typedef};

use super::interrupts::HAVE_NUMBERS;

laggard_bpf::sources! {
    IDENTITY = "identity";
    CHAIN = "chain";
    ARMING = "arming";
    LEARNING = "learning";
    EXTERNAL = "external";
    IRQ = "irq";
    IRQ_NUMBERED = "irq_numbered";
    RAISE = "raise";
    DEFERRED = "deferred";
    WORKER = "worker";
    WORKER_IMPLICIT = "worker_implicit";
    FLIGHT = "flight";
    STACKS = "stacks";
    STEAL = "steal";
    HANDLERS = "handlers";
    ATTACH = "attach";
    ATTACH_FLIGHT = "attach_flight";
    FLIGHT_STAGES = "flight_stages";
}

/// Prefixes of the tracepoints `irq_vectors`, which exist only on x86. On other architectures
/// `irq_handler_entry` and `irq_handler_exit` report these interrupts.
const VECTOR_PREFIXES: [&str; 5] = [
    "local_timer_",
    "reschedule_",
    "call_function_",
    "irq_work_",
    "thermal_apic_",
];

/// Excludes programs whose tracepoint this kernel lacks. Returns the names of the missing
/// tracepoints, except tracepoints that others replace.
pub fn leave_out_absent(open: &mut OpenObject) -> libbpf_rs::Result<Vec<String>> {
    const TRACEPOINT_PREFIX: &str = "btf_trace_";
    let kernel = Btf::from_vmlinux()?;
    // One pass over all types, because each lookup by name would be a pass.
    let types = kernel.type_by_kind::<Typedef<'_>>();
    let names = types.filter_map(|typedef| Some(typedef.name()?.to_str()?.to_owned()));
    let tracepoints: BTreeSet<String> = names
        .filter(|name| name.starts_with(TRACEPOINT_PREFIX))
        .collect();
    let mut absent = Vec::new();
    for mut program in open.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let Some(tracepoint) = section.strip_prefix("tp_btf/") else {
            continue;
        };
        if !tracepoints.contains(&format!("{TRACEPOINT_PREFIX}{tracepoint}")) {
            program.set_autoload(false);
            let is_replaced = HAVE_NUMBERS
                && VECTOR_PREFIXES
                    .iter()
                    .any(|prefix| tracepoint.starts_with(prefix));
            if !is_replaced {
                absent.push(tracepoint.to_owned());
            }
        }
    }
    Ok(absent)
}

/// Returns whether a structure of the running kernel has this member.
pub(super) fn has_member(structure: &str, member: &str) -> bool {
    let Ok(kernel) = Btf::from_vmlinux() else {
        return false;
    };
    let structure = kernel.type_by_name::<Struct<'_>>(structure);
    structure.is_some_and(|members| {
        members
            .iter()
            .any(|field| field.name == Some(OsStr::new(member)))
    })
}

#[cfg(test)]
mod tests {
    use laggard_bpf::object::ObjectFile;
    use libbpf_rs::{MapType, ObjectBuilder};

    use super::*;

    const ALL: [ObjectFile; 18] = [
        IDENTITY,
        CHAIN,
        ARMING,
        LEARNING,
        EXTERNAL,
        IRQ,
        IRQ_NUMBERED,
        RAISE,
        DEFERRED,
        WORKER,
        WORKER_IMPLICIT,
        FLIGHT,
        STACKS,
        STEAL,
        HANDLERS,
        ATTACH,
        ATTACH_FLIGHT,
        FLIGHT_STAGES,
    ];

    /// Returns whether an instruction of `source` calls the kernel helper with this number
    /// (`__BPF_FUNC_MAPPER` of `linux/bpf.h`).
    fn calls(source: ObjectFile, helper: u32) -> bool {
        const CALL: [u8; 4] = [0x85, 0, 0, 0];
        let call = [CALL, helper.to_le_bytes()].concat();
        (source.bytes)()
            .chunks_exact(8)
            .any(|instruction| instruction == call)
    }

    /// The kernel versions in `abilities.rs` and docs/reference/services-and-stages.md depend on
    /// this.
    #[test]
    fn only_the_softirq_timer_calls_bpf_loop_and_needs_linux_5_17() {
        const TIMER_START: u32 = 171;
        const LOOP: u32 = 181;

        for source in ALL {
            let is_deferred = source.name == DEFERRED.name;
            assert_eq!(calls(source, LOOP), is_deferred, "{}", source.name);
        }
        assert!(calls(DEFERRED, TIMER_START));
    }

    /// A ring buffer or perf buffer wakes its reader. The only ones here wake measuring threads.
    #[test]
    fn no_object_has_a_buffer_that_wakes_the_collector() {
        for source in ALL {
            let open = ObjectBuilder::default()
                .open_memory((source.bytes)())
                .unwrap();
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
