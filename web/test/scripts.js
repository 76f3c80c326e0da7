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
