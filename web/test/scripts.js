// What fake probes play: known truth.

const STAGES = '[["irq", 2000], ["expire", 704], ["waking", 896], ["running", 1504], ["user", 1400]]';
const LATE = '[["irq", 2000], ["expire", 704], ["waking", 896], ["running", 120000], ["user", 1400]]';

/** Two services; every 50th activation is late, and one stall stops everything for 8 ms. */
export const BUSY = `
period_ns = 1000000
dither = true
seed = 7

[[line]]
service = "fifo:90"
route = "direct"
steps = [${STAGES}, ${Array(48).fill(STAGES).join(", ")}, ${LATE}]

[[line]]
service = "softirq"
route = "deferred"
steps = [[["irq", 2100], ["raise", 300], ["softirq", 900]], [["irq", 2300], ["raise", 400], ["softirq", 4000]]]

[[stall]]
at_ns = 5000000000
length_ns = 8000000
`;

/** Those that `record --contexts` asks, the last in a queue of four turns of 10 ms. */
export const CONTEXTS = `
period_ns = 70000000
dither = false
seed = 3

[[line]]
service = "softirq"
route = "direct"
steps = [[["irq", 2000], ["raise", 300], ["softirq", 900]], [["irq", 2000], ["raise", 300], ["softirq", 1900]]]

[[line]]
service = "fifo:50"
route = "direct"
steps = [[["irq", 2000], ["user", 21000]], [["irq", 2000], ["user", 22000]]]

[[line]]
service = "fifo:10"
route = "direct"
steps = [${[0, 1, 2, 3, 4, 2, 0, 4, 1, 3].map((turns, place) => `[["irq", 2000], ["user", ${turns * 10_000_000 + 3_000_000 + place * 40_000}]]`).join(", ")}]
`;

/** Stalls of many lengths, alone and in bursts, as (start, length) in ms. */
const STALLS = Array.from({ length: 60 }, (_, index) => {
  const random = (index * 7919 + 13) % 97;
  const burst = index % 10 === 9;
  return [700 * index + (burst ? 60 : random * 4) + 0.3, 1 + ((index * 31) % 45) * (burst ? 0.3 : 1) + 0.137];
});

/** What makes an application miss: for `qos`. */
export const STALLED = `
period_ns = 1000000
dither = true
seed = 11

[[line]]
service = "fifo:90"
route = "direct"
steps = [${STAGES}]
${STALLS.map(([at, length]) => `\n[[stall]]\nat_ns = ${Math.round(at * 1e6)}\nlength_ns = ${Math.round(length * 1e6)}\n`).join("")}`;

/** Every third activation is somewhat late, and some by 4 ms. */
export const VARYING = `
period_ns = 1000000
dither = true
seed = 5

[[line]]
service = "fifo:90"
route = "direct"
steps = [${[...Array(100)].map(() => '[["irq", 8000], ["user", 1000]], [["irq", 9000], ["user", 1000]], [["irq", 30000], ["user", 1000]]').join(", ")}, [["irq", 4000000], ["user", 1000]]]
`;

/** Two tasks: one that is easily met, one that a stall of 8 ms makes miss. */
export const TASKS = `
service = "fifo:90"

[[task]]
name = "slow"
period = "100ms"
compute = "10ms"

[[task]]
name = "<b>fast</b>"
period = "4ms"
compute = "500us"
`;
