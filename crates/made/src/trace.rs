//! Traces of Windows (`.etl`) made byte by byte, as its documentation lays them
//! out: 64 bits, the performance counter's clock.

/// Where the image of the made driver `made.sys` begins.
pub const DRIVER: u64 = 0xffff_f806_9ea8_0000;
/// The header of a buffer, bytes.
const HEADER: usize = 72;
/// Where the header's own event says when the trace ended, and by which clock its
/// events are stamped.
const END_AT: usize = HEADER + 32 + 16;
const CLOCK_AT: usize = HEADER + 32 + 272;
/// When it began, in the system's time.
const BEGAN: i64 = 132_404_548_206_236_167;
/// Buffers are as long as this, bytes.
const BUFFER: usize = 4096;

/// An event of the kernel.
#[derive(Clone, Debug)]
pub struct MadeEvent {
    /// Its group, such as 15 for `PerfInfo`.
    pub group: u8,
    /// Its type within it.
    pub opcode: u8,
    /// The version of what it holds.
    pub version: u8,
    /// When, in the trace's clock.
    pub ticks: i64,
    /// What it holds.
    pub payload: Vec<u8>,
}

impl MadeEvent {
    fn new(group: u8, opcode: u8, version: u8, ticks: i64, parts: &[&[u8]]) -> Self {
        Self {
            group,
            opcode,
            version,
            ticks,
            payload: parts.concat(),
        }
    }

    /// An ISR at `routine` that returned at `ticks`.
    pub fn isr(ticks: i64, begun: i64, routine: u64) -> Self {
        let (begun, routine) = (begun.to_le_bytes(), routine.to_le_bytes());
        Self::new(15, 67, 2, ticks, &[&begun, &routine, &[1, 97, 0, 0]])
    }

    /// A DPC of type `opcode` (66, 68, 69) at `routine` that returned at `ticks`.
    pub fn dpc(opcode: u8, ticks: i64, begun: i64, routine: u64) -> Self {
        let (begun, routine) = (begun.to_le_bytes(), routine.to_le_bytes());
        Self::new(15, opcode, 2, ticks, &[&begun, &routine])
    }

    /// A switch to thread `to`, which then has `priority`.
    pub fn switch(ticks: i64, from: u32, to: u32, priority: u8) -> Self {
        let (to, from) = (to.to_le_bytes(), from.to_le_bytes());
        let rest = [priority, 8, 0, 0, 6, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        Self::new(5, 36, 4, ticks, &[&to, &from, &rest])
    }

    /// The same, where the thread before could have gone on.
    pub fn preemption(ticks: i64, from: u32, to: u32, priority: u8) -> Self {
        let mut event = Self::switch(ticks, from, to, priority);
        event.payload[14] = 1;
        event
    }

    /// What a CPU was at, in `thread`.
    pub fn sample(ticks: i64, thread: u32, address: u64) -> Self {
        let (address, thread) = (address.to_le_bytes(), thread.to_le_bytes());
        Self::new(15, 46, 2, ticks, &[&address, &thread, &[1, 0, 0, 0]])
    }

    /// The call chain of what `thread` wrote at `of`, the innermost address first.
    pub fn stack(ticks: i64, of: i64, thread: u32, chain: &[u64]) -> Self {
        let (of, thread) = (of.to_le_bytes(), thread.to_le_bytes());
        let chain: Vec<u8> = chain.iter().flat_map(|one| one.to_le_bytes()).collect();
        Self::new(24, 32, 2, ticks, &[&of, &[0; 4], &thread, &chain])
    }

    /// A thread was made ready.
    pub fn ready(ticks: i64, thread: u32) -> Self {
        Self::new(5, 50, 2, ticks, &[&thread.to_le_bytes(), &[0; 4]])
    }

    /// A thread waited for a page since `begun`.
    pub fn hard_fault(ticks: i64, begun: i64, thread: u32) -> Self {
        let (begun, thread) = (begun.to_le_bytes(), thread.to_le_bytes());
        Self::new(
            2,
            32,
            2,
            ticks,
            &[&begun, &[0; 24], &thread, &[0, 16, 0, 0]],
        )
    }

    /// A thread is there (`opcode` 3), began (1) or ended (2).
    pub fn thread(opcode: u8, ticks: i64, process: u32, thread: u32) -> Self {
        let (process, thread) = (process.to_le_bytes(), thread.to_le_bytes());
        Self::new(5, opcode, 3, ticks, &[&process, &thread, &[0; 60]])
    }

    /// A process of this name is there.
    pub fn process(ticks: i64, process: u32, name: &[u8]) -> Self {
        let before = [&[0; 8][..], &process.to_le_bytes(), &[0; 24]].concat();
        // A user: a pointer and attributes, then a SID of one authority.
        let user = [[1; 16].as_slice(), &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]].concat();
        Self::new(3, 3, 4, ticks, &[&before, &user, name, &[0], &[0; 6]])
    }

    /// An image of `size` bytes is at `base`.
    pub fn image(ticks: i64, base: u64, size: u64, path: &str) -> Self {
        let path: Vec<u8> = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (base, size) = (base.to_le_bytes(), size.to_le_bytes());
        Self::new(20, 3, 3, ticks, &[&base, &size, &[0; 40], &path, &[0; 2]])
    }

    /// With the header of the kernel's frequent events.
    fn bytes(&self) -> Vec<u8> {
        let size = u16::try_from(16 + self.payload.len()).expect("a made event is short");
        let mut bytes = vec![self.version, 0, 17, 0xc0];
        bytes.extend(size.to_le_bytes());
        bytes.extend([self.opcode, self.group]);
        bytes.extend(self.ticks.to_le_bytes());
        bytes.extend(&self.payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

/// A trace.
#[derive(Clone, Debug)]
pub struct MadeTrace {
    bytes: Vec<u8>,
}

impl MadeTrace {
    /// Of a machine with 2 CPUs whose counter has `hz`, that lost so many
    /// events and buffers.
    pub fn new(hz: i64, events_lost: u32, buffers_lost: u32) -> Self {
        let mut header = Vec::new();
        let numbers = [4096, 0x0501_000a, 19045, 2, 0, 0, 156_250, 0, 0, 1, 1, 8];
        header.extend(numbers.iter().flat_map(|one: &u32| one.to_le_bytes()));
        header.extend([events_lost, 3000].iter().flat_map(|one| one.to_le_bytes()));
        header.resize(56 + 16 + 172 + 4, 0);
        let times: [i64; 3] = [0, hz, BEGAN];
        header.extend(times.iter().flat_map(|one| one.to_le_bytes()));
        header.extend([1, buffers_lost].iter().flat_map(|one| one.to_le_bytes()));
        let session = "made".encode_utf16().flat_map(u16::to_le_bytes);
        header.extend(session.chain([0; 4]));
        let size = u16::try_from(32 + header.len()).expect("a header is short");
        let mut event = vec![2, 0, 2, 0xc0];
        event.extend(size.to_le_bytes());
        event.extend([0; 26]);
        event.extend(header);
        Self { bytes: Vec::new() }.with(0, &event)
    }

    /// Its events stamped by the system's time: 10 MHz, whatever was said.
    #[must_use]
    pub fn by_system_time(mut self) -> Self {
        self.bytes[CLOCK_AT] = 2;
        self
    }

    /// Its header says that it ended so many ticks of 100 ns after it began.
    #[must_use]
    pub fn ended_after(mut self, ticks: i64) -> Self {
        let end = (BEGAN + ticks).to_le_bytes();
        self.bytes[END_AT..END_AT + end.len()].copy_from_slice(&end);
        self
    }

    /// With a buffer of `cpu`.
    #[must_use]
    pub fn buffer(self, cpu: u16, events: &[MadeEvent]) -> Self {
        let events: Vec<u8> = events.iter().flat_map(MadeEvent::bytes).collect();
        self.with(cpu, &events)
    }

    /// With a buffer of messages, which have no time.
    #[must_use]
    pub fn messages(self, cpu: u16, number: usize) -> Self {
        self.with(
            cpu,
            &[16, 0, 0, 0x90, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].repeat(number),
        )
    }

    fn with(mut self, cpu: u16, events: &[u8]) -> Self {
        let filled = HEADER + events.len();
        assert!(filled <= BUFFER, "these events need {filled} bytes");
        let mut bytes = vec![0xff; BUFFER];
        bytes[..HEADER].fill(0);
        let number = |number: usize| u32::try_from(number).unwrap_or(0).to_le_bytes();
        bytes[..4].copy_from_slice(&number(BUFFER));
        bytes[40..42].copy_from_slice(&cpu.to_le_bytes());
        bytes[48..52].copy_from_slice(&number(filled));
        bytes[52] = 0x20;
        bytes[HEADER..filled].copy_from_slice(events);
        self.bytes.extend(bytes);
        self
    }

    /// The file.
    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}
