//! Compiles the BPF programs. All names must differ: their objects go to one
//! folder.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    laggard_bpf::compile::compile("src/disturb/kernel/bpf")?;
    laggard_bpf::compile::compile("src/task/kernel/bpf")
}
