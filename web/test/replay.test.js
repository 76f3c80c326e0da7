// The port of the replay is held to `analyze` by vectors that the test
// `web_vectors` of that crate writes. Node runs it without a browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const vectors = JSON.parse(readFileSync(new URL("replay.json", import.meta.url), "utf8"));

/** A module of the page. */
async function load(name) {
  const path = fileURLToPath(new URL(`../src/qos/${name}.ts`, import.meta.url));
  return (await runnerImport(path, { configFile: false, logLevel: "error" })).module;
}

/** Of floating-point results only the last digits may differ: gamma and beta functions are other ones. */
function near(found, wanted, what, tolerance = 1e-7) {
  if (Array.isArray(wanted)) {
    assert.equal(found.length, wanted.length, what);
    for (const [index, one] of wanted.entries()) near(found[index], one, `${what}[${index}]`, tolerance);
    return;
  }
  // JSON has no infinity.
  const got = found === null || found === undefined || !Number.isFinite(found) ? null : found;
  if (wanted === null || got === null) return assert.equal(got, wanted, what);
  assert.ok(Math.abs(got - wanted) <= tolerance * Math.max(Math.abs(wanted), 1e-12), `${what}: ${got} is not ${wanted}`);
}

async function each(kind, least, check) {
  const own = vectors.map((vector, index) => [vector, `${kind} ${index}`]).filter(([{ of }]) => of === kind);
  assert.ok(own.length >= least, `only ${own.length} of ${kind}`);
  for (const [vector, what] of own) check(vector, what);
}

test("every job that misses is one of analyze's", async () => {
  const { lateJobs } = await load("replay");
  await each("late", 700, ({ blackouts, until, buffering, phase, base, count, misses, episodes }, what) => {
    const found = lateJobs(blackouts, until, buffering, phase, base);
    assert.equal(found.misses.length, count, what);
    assert.equal(found.runs.length, episodes, what);
    near(found.misses.slice(0, misses.length), misses, what, 1e-12);
  });
});

test("the same latencies show the same blackouts", async () => {
  const { blackouts } = await load("replay");
  await each("blackouts", 300, ({ stream, base, least, ...wanted }, what) => {
    const found = blackouts(stream, base, least);
    for (const list of ["inner", "middle", "outer"]) {
      near(found[list].start, wanted[list].start, `${what} ${list}`, 1e-12);
      near(found[list].end, wanted[list].end, `${what} ${list}`, 1e-12);
    }
  });
});

test("failures, their clusters and intervals are analyze's", async () => {
  const { outlook } = await load("outlook");
  await each("outlook", 400, ({ streams, base, least, buffering, figures }, what) => {
    const found = outlook(streams, base, least, buffering);
    for (const [name, wanted] of Object.entries(figures)) near(found[name], wanted, `${what} ${name}`);
  });
});

test("a curve is put in order as analyze does", async () => {
  const { monotone } = await load("outlook");
  const points = (all, exposure) => all.map(({ high, ...figures }) => ({ figures: { ...figures, high: high ?? Infinity, exposure } }));
  await each("curve", 60, ({ before, after, exposure }, what) => {
    const found = points(before, exposure);
    monotone(found);
    for (const [index, wanted] of after.entries()) {
      for (const name of ["failures", "mttf", "low", "high"]) near(found[index].figures[name], wanted[name], `${what} ${name} ${index}`);
    }
  });
});

test("clusters of events and the interval of their sum are analyze's", async () => {
  const { clustersOf, clusteredInterval } = await load("clusters");
  await each("clusters", 250, ({ events, span, sum, ...wanted }, what) => {
    const found = clustersOf(events.map(([at, size]) => ({ at, size })), span);
    near(found?.count ?? null, wanted.count, `${what} count`);
    near(found?.variation ?? null, wanted.variation, `${what} variation`);
    const { low, high } = clusteredInterval(sum, found);
    near(low, wanted.low, `${what} low`);
    near(high, wanted.high, `${what} high`);
  });
});

test("the interval of a rate is Garwood's", async () => {
  const { rateInterval } = await load("poisson");
  await each("rate", 100, ({ events, exposure, confidence, low, high }, what) => {
    const found = rateInterval(events, exposure, confidence);
    near(found.low, low, `${what} low`);
    near(found.high, high, `${what} high`);
  });
});

test("where only an interval can be told it is analyze's", async () => {
  const { failureBounds } = await load("sampled");
  const { failures } = await load("failures");
  const { blackouts } = await load("replay");
  await each("bounds", 200, ({ buffering, base, exposure, largest, is_between, is_counted, ordinary, buckets, streams, low, high }, what) => {
    // With a floor above every latency no stall is known one by one.
    const service = { base_ns: base, largest_ns: largest, floor_ns: is_counted ? 0 : Infinity, buckets, streams };
    const seen = streams.map((one) => ({ recording: one.recording, blackouts: blackouts(one, base, ordinary - base).inner, exposure: one.duration_ns }));
    const inner = failures(seen, buffering, base);
    const found = failureBounds(service, buffering, { inner, exposure, ordinary, isBetween: is_between });
    near(found.low, low, `${what} low`);
    near(found.high, high, `${what} high`);
  });
});

test("what would be replayed for too long is refused in the words of laggard qos", async () => {
  const { curve, refusal } = await load("outlook");
  const stream = (duration_ns, latency_ns) => ({ recording: 0, duration_ns, after_ns: [1e9], latency_ns: [latency_ns], free_ns: [1e9] });
  const of = (...streams) => ({ service: "fifo:90", name: "fifo:90", base_ns: 19e3, apart_ns: 1e3, cut_ns: null, floor_ns: 0, is_tail: false, buckets: [[900, 1]], streams });
  const application = (period, buffers = 2) => ({ buffers, period, compute: 0 });
  const said = (service, asked) => {
    assert.deepEqual(curve(service, asked), []);
    return refusal(service, asked);
  };

  // A stall of 104 days, and buffers shorter than the latency of each job.
  assert.equal(
    said(of(stream(9e15, 9e15)), application(1e6)),
    "buffers of 1ms are too short to be replayed: `fifo:90` was stopped for 9,000,000,001 of them, more than 1,000,000; the limit for these recordings is `--buffer 9900ms`",
  );
  assert.match(said(of(stream(45e9, 4e6)), application(1e3)), /^buffers of 1us are too short .* 45,000,001 of them/);
  // Few enough for one replay, too many for a page at once.
  assert.match(said(of(stream(900e9, 890e9)), application(1e6)), /plays 900,001 jobs for each of 11 numbers of buffers, .* ask `laggard qos`$/);
  assert.equal(refusal(of(stream(45e9, 4e6)), application(1e6)), null);
  assert.equal(curve(of(stream(45e9, 4e6)), application(1e6)).length, 11);
});
