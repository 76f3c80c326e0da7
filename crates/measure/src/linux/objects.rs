//! The BPF objects of the probes.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Struct, Typedef};

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
    HANDLERS = "handlers";
    ATTACH = "attach";
    ATTACH_COUNTED = "attach_counted";
}

/// Keeps programs from loading whose tracepoint this kernel does not have;
/// the names of those.
pub fn leave_out_absent(open: &mut OpenObject) -> libbpf_rs::Result<Vec<String>> {
    const OF_TRACEPOINT: &str = "btf_trace_";
    let kernel = Btf::from_vmlinux()?;
    // Once through all types: to look a name up goes through them each time.
    let types = kernel.type_by_kind::<Typedef<'_>>();
    let names = types.filter_map(|one| Some(one.name()?.to_str()?.to_owned()));
    let known: BTreeSet<String> = names
        .filter(|name| name.starts_with(OF_TRACEPOINT))
        .collect();
    let mut absent = Vec::new();
    for mut program in open.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let Some(tracepoint) = section.strip_prefix("tp_btf/") else {
            continue;
        };
        if !known.contains(&format!("{OF_TRACEPOINT}{tracepoint}")) {
            program.set_autoload(false);
            absent.push(tracepoint.to_owned());
        }
    }
    Ok(absent)
}

/// Whether a structure of the running kernel has this member.
pub(super) fn has_member(structure: &str, member: &str) -> bool {
    let Ok(kernel) = Btf::from_vmlinux() else {
        return false;
    };
    let structure = kernel.type_by_name::<Struct<'_>>(structure);
    structure.is_some_and(|found| found.iter().any(|one| one.name == Some(OsStr::new(member))))
}

#[cfg(test)]
mod tests {
    use laggard_bpf::object::ObjectFile;
    use libbpf_rs::{MapType, ObjectBuilder};

    use super::*;

    const ALL: [ObjectFile; 16] = [
        IDENTITY,
        CHAIN,
        ARMING,
        LEARNING,
        EXTERNAL,
        IRQ,
        RAISE,
        DEFERRED,
        WORKER,
        WORKER_IMPLICIT,
        FLIGHT,
        STACKS,
        STEAL,
        HANDLERS,
        ATTACH,
        ATTACH_COUNTED,
    ];

    /// Whether an instruction of `source` calls the kernel's helper of this
    /// number (`__BPF_FUNC_MAPPER` of `linux/bpf.h`).
    fn calls(source: ObjectFile, helper: u32) -> bool {
        const CALL: [u8; 4] = [0x85, 0, 0, 0];
        let call = [CALL, helper.to_le_bytes()].concat();
        source.bytes.chunks_exact(8).any(|one| one == call)
    }

    /// What `abilities.rs` and docs/reference/services-and-stages.md say of the kernels that each
    /// ability needs rests on this.
    #[test]
    fn only_the_softirq_timer_calls_bpf_loop_and_so_needs_linux_5_17() {
        const TIMER_START: u32 = 171;
        const LOOP: u32 = 181;

        for source in ALL {
            let is_deferred = source.name == DEFERRED.name;
            assert_eq!(calls(source, LOOP), is_deferred, "{}", source.name);
        }
        assert!(calls(DEFERRED, TIMER_START));
    }

    /// A ring buffer or a perf buffer wakes whoever waits for it. The only
    /// ones are those that wake measuring threads.
    #[test]
    fn no_object_has_a_buffer_that_could_wake_the_collector() {
        for source in ALL {
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
