// Episodes written into a played recording, which has none of its own.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where the test's kernel functions are. */
const FUNCTION = "0xffffffff81000010";
const CALLER = "0xffffffff81000020";

/** Between two samples, ns. */
const PERIOD = 250_000;

/**
 * Makes each late activation an episode: a thread called `name` stays in the kernel until
 * the service runs, in a function called `name` too. `handlers` is what was counted of the
 * kernel's, if that was.
 */
export function writeEpisodes(recording, { line, cpu, late, name, handlers }) {
  const { clock } = JSON.parse(readFileSync(join(recording, "manifest.json"), "utf8"));
  const episodes = late.map(({ at, latency }, index) => {
    const expiry = clock.start_ns + at;
    const to = expiry + latency;
    const thread = { tid: 77, name: name.slice(0, 15), priority: 20, preempted: true };
    const service = { tid: 9, name: "service", priority: 9, preempted: true };
    return {
      number: index + 1,
      line,
      cpu,
      seq: index,
      expiry_ns: expiry,
      stages: { irq: 2000, expire: 2500, waking: 3000, running: latency - 1400, user: latency },
      threshold_ns: 100_000,
      evidence: {
        from_ns: expiry - 1000,
        to_ns: to,
        overwritten: false,
        events: [
          { at_ns: expiry - 1000, what: { switch: thread } },
          { at_ns: to - 1400, what: { switch: service } },
        ],
        // Without them, nothing would be known to run.
        samples: Array.from({ length: Math.floor((latency - 51_400) / PERIOD) + 1 }, (_, nth) => ({
          at_ns: expiry + 50_000 + nth * PERIOD,
          tid: 77,
          process: 77,
          kernel: [FUNCTION, CALLER],
          user: [],
        })),
        sampler: ["nmi", PERIOD],
        stolen: null,
        smis: null,
        still: [],
      },
    };
  });
  writeFileSync(join(recording, "episodes-000001.jsonl.zst"), stored(episodes.map((one) => `${JSON.stringify(one)}\n`).join("")));
  const symbols = { kernel: { [FUNCTION]: { name }, [CALLER]: { name: "do_syscall_64" } }, user: {}, interrupts: {} };
  writeFileSync(join(recording, "episodes.json"), JSON.stringify({ thresholds_ns: [100_000], kept: late.length, surplus: 0, overwritten: 0, symbols, handlers }));
}

/** A text as a zstd frame whose blocks are not compressed (RFC 8878, 3.1.1). */
function stored(text) {
  const bytes = Buffer.from(text);
  const parts = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58])];
  for (let at = 0; at < bytes.length; at += 0x10000) {
    const block = bytes.subarray(at, at + 0x10000);
    const header = (block.length << 3) | (at + block.length >= bytes.length ? 1 : 0);
    parts.push(Buffer.from([header & 0xff, (header >> 8) & 0xff, header >> 16]), block);
  }
  return Buffer.concat(parts);
}
