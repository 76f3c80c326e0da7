//! Traces of Windows (`.etl`), constructed byte by byte according to the documentation:
//! 64 bits, the performance counter's clock.

/// Start of the image of the constructed driver `made.sys`.
pub const DRIVER: u64 = 0xffff_f806_9ea8_0000;
/// Length of the header of a buffer, bytes.
const HEADER: usize = 72;
/// Position of the end of the trace and of its clock, in the header event.
const END_AT: usize = HEADER + 32 + 16;
const CLOCK_AT: usize = HEADER + 32 + 272;
/// Start of the trace, in system time.
const BEGAN: i64 = 132_404_548_206_236_167;
/// Length of buffers, bytes.
const BUFFER: usize = 4096;

/// Kernel event.
#[derive(Clone, Debug)]
pub struct MadeEvent {
    /// Group, such as 15 for `PerfInfo`.
    pub group: u8,
    /// Type within the group.
    pub opcode: u8,
    /// Version of the payload.
    pub version: u8,
    /// Timestamp, in the trace's clock.
    pub ticks: i64,
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

    /// Creates an ISR at `routine` that returned at `ticks`.
    pub fn isr(ticks: i64, begun: i64, routine: u64) -> Self {
        let (begun, routine) = (begun.to_le_bytes(), routine.to_le_bytes());
        Self::new(15, 67, 2, ticks, &[&begun, &routine, &[1, 97, 0, 0]])
    }

    /// Creates a DPC of type `opcode` (66, 68, 69) at `routine` that returned at
    /// `ticks`.
    pub fn dpc(opcode: u8, ticks: i64, begun: i64, routine: u64) -> Self {
        let (begun, routine) = (begun.to_le_bytes(), routine.to_le_bytes());
        Self::new(15, opcode, 2, ticks, &[&begun, &routine])
    }

    /// Creates a switch to thread `to`, which then has `priority`.
    pub fn switch(ticks: i64, from: u32, to: u32, priority: u8) -> Self {
        let (to, from) = (to.to_le_bytes(), from.to_le_bytes());
        let rest = [priority, 8, 0, 0, 6, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        Self::new(5, 36, 4, ticks, &[&to, &from, &rest])
    }

    /// Creates a switch from a thread that could have continued.
    pub fn preemption(ticks: i64, from: u32, to: u32, priority: u8) -> Self {
        let mut event = Self::switch(ticks, from, to, priority);
        event.payload[14] = 1;
        event
    }

    /// Creates a sample of a CPU, in `thread`.
    pub fn sample(ticks: i64, thread: u32, address: u64) -> Self {
        let (address, thread) = (address.to_le_bytes(), thread.to_le_bytes());
        Self::new(15, 46, 2, ticks, &[&address, &thread, &[1, 0, 0, 0]])
    }

    /// Creates the call chain of the event that `thread` wrote at `sampled_at`, innermost
    /// address first.
    pub fn stack(ticks: i64, sampled_at: i64, thread: u32, chain: &[u64]) -> Self {
        let (time_bytes, thread) = (sampled_at.to_le_bytes(), thread.to_le_bytes());
        let chain: Vec<u8> = chain
            .iter()
            .flat_map(|address| address.to_le_bytes())
            .collect();
        Self::new(24, 32, 2, ticks, &[&time_bytes, &[0; 4], &thread, &chain])
    }

    /// Creates an event that makes a thread ready.
    pub fn ready(ticks: i64, thread: u32) -> Self {
        Self::new(5, 50, 2, ticks, &[&thread.to_le_bytes(), &[0; 4]])
    }

    /// Creates a hard fault of a thread that waited for a page since `begun`.
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

    /// Creates the event of a thread that exists (`opcode` 3), started (1) or ended
    /// (2).
    pub fn thread(opcode: u8, ticks: i64, process: u32, thread: u32) -> Self {
        let (process, thread) = (process.to_le_bytes(), thread.to_le_bytes());
        Self::new(5, opcode, 3, ticks, &[&process, &thread, &[0; 60]])
    }

    /// Creates the event of an existing process with this name.
    pub fn process(ticks: i64, process: u32, name: &[u8]) -> Self {
        let before = [&[0; 8][..], &process.to_le_bytes(), &[0; 24]].concat();
        // A user: a pointer and attributes, then a SID of one authority.
        let user = [[1; 16].as_slice(), &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]].concat();
        Self::new(3, 3, 4, ticks, &[&before, &user, name, &[0], &[0; 6]])
    }

    /// Creates the event of an image of `size` bytes at `base`.
    pub fn image(ticks: i64, base: u64, size: u64, path: &str) -> Self {
        let path: Vec<u8> = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (base, size) = (base.to_le_bytes(), size.to_le_bytes());
        Self::new(20, 3, 3, ticks, &[&base, &size, &[0; 40], &path, &[0; 2]])
    }

    /// Encodes the event with the header of frequent kernel events.
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

#[derive(Clone, Debug)]
pub struct MadeTrace {
    bytes: Vec<u8>,
}

impl MadeTrace {
    /// Creates the trace of a machine with 2 CPUs and a counter of `hz`, with these
    /// losses.
    pub fn new(hz: i64, events_lost: u32, buffers_lost: u32) -> Self {
        let mut header = Vec::new();
        let numbers = [4096, 0x0501_000a, 19045, 2, 0, 0, 156_250, 0, 0, 1, 1, 8];
        header.extend(numbers.iter().flat_map(|number: &u32| number.to_le_bytes()));
        header.extend(
            [events_lost, 3000]
                .iter()
                .flat_map(|number| number.to_le_bytes()),
        );
        header.resize(56 + 16 + 172 + 4, 0);
        let times: [i64; 3] = [0, hz, BEGAN];
        header.extend(times.iter().flat_map(|time| time.to_le_bytes()));
        header.extend(
            [1, buffers_lost]
                .iter()
                .flat_map(|number| number.to_le_bytes()),
        );
        let session = "made".encode_utf16().flat_map(u16::to_le_bytes);
        header.extend(session.chain([0; 4]));
        let size = u16::try_from(32 + header.len()).expect("a header is short");
        let mut event = vec![2, 0, 2, 0xc0];
        event.extend(size.to_le_bytes());
        event.extend([0; 26]);
        event.extend(header);
        Self { bytes: Vec::new() }.with(0, &event)
    }

    /// Sets the system time of 10 MHz as its clock.
    #[must_use]
    pub fn by_system_time(mut self) -> Self {
        self.bytes[CLOCK_AT] = 2;
        self
    }

    /// Sets the duration in ticks of 100 ns in its header.
    #[must_use]
    pub fn ended_after(mut self, ticks: i64) -> Self {
        let end = (BEGAN + ticks).to_le_bytes();
        self.bytes[END_AT..END_AT + end.len()].copy_from_slice(&end);
        self
    }

    /// Adds a buffer of `cpu`.
    #[must_use]
    pub fn buffer(self, cpu: u16, events: &[MadeEvent]) -> Self {
        let events: Vec<u8> = events.iter().flat_map(MadeEvent::bytes).collect();
        self.with(cpu, &events)
    }

    /// Adds a buffer of messages, which do not have a timestamp.
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

    /// Returns the content of the file.
    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}
