//! Compiles the BPF programs.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    laggard_bpf::compile::compile("src/disturb/kernel/bpf")
}
