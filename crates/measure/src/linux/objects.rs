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
