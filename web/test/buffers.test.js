import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { dataOf, full, near, rowsOf } from "./answers.js";
import { laggard, open, play, report, scratch, skip } from "./browser.js";
import { STALLED, VARYING } from "./scripts.js";

/** Buffers, length and work in ms: short and long, tight and loose, with much and no work. */
const SETTINGS = [
  [2, 4, 1],
  [3, 6, 1.5],
  [4, 3, 0.75],
  [2, 16, 4],
  [5, 8, 7.5],
  [3, 2.9, 0],
  [8, 1, 0.25],
  [2, 33, 8],
  [14, 2.667, 0.5],
  [2, 0.5, 0.1],
  [6, 10, 9.9],
  [3, 100, 20],
];

async function set(page, id, value) {
  await page.locator(`#${id}-field`).fill(String(value));
  await page.locator(`#${id}-field`).dispatchEvent("change");
}

const numbers = (rows) => rows.map((row) => row.slice(1).map((text) => (text === "" ? null : Number(text))));

function agree(found, wanted, what) {
  if (wanted === null || wanted === undefined) return assert.equal(found, null, what);
  assert.ok(Math.abs(found - wanted) <= 1e-6 * Math.abs(wanted) + 1e-9, `${what}: ${found} is not ${wanted}`);
}

test("the sliders give what laggard qos gives", { skip }, async (t) => {
  const dir = scratch(t);
  const recording = play(dir, "stalled", STALLED, "--duration", "45s");
  const { page, seen } = await open(t, report(dir, recording));
  await page.locator("#mttf summary").click();

  for (const [buffers, length, work] of SETTINGS) {
    // The order keeps the work shorter than the buffer throughout.
    await set(page, "compute", 0);
    await set(page, "buffer", length);
    await set(page, "compute", work);
    await set(page, "buffers", buffers);
    const head = `${buffers} buffers of `;
    await page.waitForFunction((head) => document.querySelector("#mttf .words").textContent.startsWith(head), head);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));

    const asked = ["--buffers", buffers, "--buffer", `${Math.round(length * 1e6)}ns`, "--compute", `${Math.round(work * 1e6)}ns`];
    const { services } = JSON.parse(laggard("qos", recording, ...asked.map(String), "--json")).loads[0];
    const { curve, outlook } = services.find(({ service }) => service === "fifo:90");
    const rows = numbers(await rowsOf(page, "#mttf .data tbody tr"));
    assert.equal(rows.length, curve.length, `${asked}`);
    for (const [index, { buffers, total_ns, figures }] of curve.entries()) {
      const what = `${asked}, curve at ${buffers}`;
      const [foundBuffers, total, mttf, low, high, failures, clusters, late, paper] = rows[index];
      assert.deepEqual([foundBuffers, total], [buffers, total_ns], what);
      agree(mttf, figures.mttf_ns, what);
      agree(low, figures.mttf_low_ns, what);
      agree(high, figures.mttf_high_ns, what);
      agree(failures, figures.failures, what);
      agree(clusters, figures.clusters, what);
      agree(late, figures.late_per_hour, what);
      agree(paper, figures.paper_mttf_ns, what);
    }
    const own = (await rowsOf(page, ".outcome tbody tr")).find(([name]) => name === "fifo:90");
    const digits = outlook.failures < 10 ? 1 : 0;
    if (outlook.failures === null) assert.match(own[2], /^\d+ to \d+$/);
    else assert.equal(own[2], outlook.failures === 0 ? "0" : outlook.failures.toFixed(digits));
  }
  assert.deepEqual(seen.errors, []);
});

test("an application of the catalogue can be chosen, and the user's own comes first", { skip }, async (t) => {
  const dir = scratch(t);
  const recording = play(dir, "stalled", STALLED, "--duration", "5s");
  const file = report(dir, recording, "--app", "modem");
  const { page } = await open(t, file);
  const words = page.locator("#mttf .words");

  assert.equal(dataOf(file).buffers.applications[0].name, "modem");
  assert.match(await words.innerText(), /^3 buffers of 6.00 ms, 1.50 ms of work each/);
  await page.locator(".controls select").selectOption("adsl");
  await page.waitForFunction(() => document.querySelector("#mttf .words").textContent.startsWith("4 buffers of 3.00 ms"));

  await page.locator("#buffers-slider").press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#mttf .words").textContent.startsWith("5 buffers of 3.00 ms"));
});

test("what the page holds too little of is refused, not guessed", { skip }, async (t) => {
  const dir = scratch(t);
  const { page } = await open(t, report(dir, play(dir, "varying", VARYING, "--duration", "30s")));

  await set(page, "compute", 0.01);
  await set(page, "buffer", 0.06);
  await set(page, "buffers", 2);

  await page.waitForFunction(() => document.querySelector(".outcome").textContent.includes("enough for a slack of"));
  const fifo = (await rowsOf(page, ".outcome tbody tr")).find(([name]) => name === "fifo:90");
  assert.equal(fifo[4], "see below");
});

test("of a recording of the tail the sliders give an interval, as laggard qos does", { skip }, async (t) => {
  const dir = scratch(t);
  const recording = play(dir, "tail", VARYING, "--duration", "30s", "--keep", "tail");
  const { page } = await open(t, report(dir, recording));
  await page.locator("#mttf summary").click();

  for (const [buffers, length, work] of [
    [2, 0.06, 0.01],
    [2, 2.667, 0.8],
    [3, 100, 20],
  ]) {
    await set(page, "compute", 0);
    await set(page, "buffer", length);
    await set(page, "compute", work);
    await set(page, "buffers", buffers);
    await page.waitForFunction((head) => document.querySelector("#mttf .words").textContent.startsWith(head), `${buffers} buffers of `);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    const asked = ["--buffers", buffers, "--buffer", `${Math.round(length * 1e6)}ns`, "--compute", `${Math.round(work * 1e6)}ns`];
    const { curve } = JSON.parse(laggard("qos", recording, ...asked.map(String), "--json")).loads[0].services.find(({ service }) => service === "fifo:90");
    const rows = numbers(await rowsOf(page, "#mttf .data tbody tr"));
    for (const [index, { figures }] of curve.entries()) {
      const [, , mttf, low, high, failures] = rows[index];
      agree(mttf, figures.mttf_ns, `${asked}, ${index}`);
      agree(low, figures.mttf_low_ns, `${asked}, ${index}`);
      agree(high, figures.mttf_high_ns, `${asked}, ${index}`);
      agree(failures, figures.failures, `${asked}, ${index}`);
    }
  }
});

test("values that make no buffers are refused with the reason", { skip }, async (t) => {
  const dir = scratch(t);
  const { page } = await open(t, report(dir, play(dir, "stalled", STALLED, "--duration", "5s")));

  await set(page, "compute", 5000);

  assert.match(await page.locator(".controls .error").innerText(), /shorter than the buffer/);
});

test("the forecast on the page is that of the terminal: what needs no model first, refusals in one line", { skip }, async (t) => {
  const { recording, file } = full(t);
  const { page } = await open(t, file);
  const { forecast, forecast_told: told } = dataOf(file);

  assert.deepEqual(forecast, JSON.parse(laggard("forecast", recording, "--json")));
  const terminal = laggard("forecast", recording).replaceAll(/\s+/g, " ");
  // Without what is folded.
  const unfolded = (section) => [...section.querySelectorAll("article > div > :not(details)")].map((part) => part.innerText).join(" ");
  const said = (await page.locator("#forecast").evaluate(unfolded)).replaceAll(/\s+/g, " ");
  const { chances, bounds, carried, assumed, fitted, advice, every } = told[0];
  const shortly = fitted.replace("see below.", "");
  // In both, in this order.
  for (const text of [terminal, said]) {
    let from = 0;
    for (const part of [...chances.rows.flat(), ...bounds.rows.flat(), carried, ...assumed.table.rows.flat(), shortly, ...advice]) {
      const at = text.indexOf(part, text === said ? 0 : from);
      assert.ok(at >= 0, `${part} in ${text}`);
      from = at;
    }
  }
  // No cell says that it is refused, unless every level is asked for.
  assert.doesNotMatch(said, /refused \([a-z]\d*[,)]/);
  assert.equal(said.match(/refused/g).length, 1, said);
  await page.locator("#forecast summary").click();
  const all = (await page.locator("#forecast").innerText()).replaceAll(/\s+/g, " ");
  for (const remark of every.remarks) assert.ok(all.includes(remark.replaceAll("`", "").replaceAll(/\s+/g, " ")), remark);
  for (const cell of every.table.rows.flat()) assert.ok(all.includes(cell), cell);
});

test("the task set's verdicts are those of sched --json", { skip }, async (t) => {
  const { recording, tasks, file } = full(t);
  // Exit code 1 says that a task misses.
  const sched = dataOf(file).sched[0];
  const { page } = await open(t, file);

  assert.deepEqual(sched, JSON.parse(laggard("sched", recording, ...tasks, "--json")));
  const rows = await rowsOf(page, "#schedulability tbody tr");
  assert.deepEqual(
    rows.map(([name, , , , , , , , , verdict]) => [name, verdict.toLowerCase()]),
    sched.tasks.map(({ name, verdict }) => [name, verdict]),
  );
  for (const [index, { ideal_ns, period_ns }] of sched.tasks.entries()) {
    near(rows[index][3], period_ns);
    near(rows[index][5], ideal_ns);
  }
});

/** A report in which a service was stopped after a day for so many days, in a recording of 90. */
function stoppedFor(dir, days, isOpen) {
  const DAY = 8.64e13;
  const file = report(dir, play(dir, "stalled", STALLED, "--duration", "5s"));
  const data = dataOf(file);
  for (const service of data.buffers.loads[0].services) {
    service.waited_ns = isOpen ? days * DAY : null;
    service.largest_ns = days * DAY;
    service.buckets.push([Math.ceil(64 * Math.log2(days * DAY)), 3]);
    for (const stream of service.streams) {
      stream.duration_ns = 90 * DAY;
      stream.after_ns.push(DAY);
      stream.latency_ns.push(days * DAY);
      stream.free_ns.push(1e6);
    }
  }
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  writeFileSync(file, readFileSync(file, "utf8").replace(/(<script id="laggard-data" type="application\/json">).*?(<\/script>)/s, (_, before, after) => before + text + after));
  return file;
}

for (const [which, days, isOpen] of [
  ["that had not ended", 89, true],
  ["that ended", 60, false],
]) {
  test(`the sliders stay usable with a stall of months ${which}`, { skip }, async (t) => {
    const { page, seen } = await open(t, stoppedFor(scratch(t), days, isOpen));
    const outcome = page.locator(".outcome");

    for (const [buffers, period, work] of [
      [2, 2.667, 0.8],
      [2, 0.01, 0.001],
      [32, 1000, 10],
      [1000, 3.6e6, 1000],
      [2, 8.64e7, 1000],
      [12, 8.64e8, 1000],
    ]) {
      await set(page, "compute", 0);
      await set(page, "buffer", period);
      await set(page, "compute", work);
      await set(page, "buffers", buffers);
      await page.waitForFunction((head) => document.querySelector("#mttf .words").textContent.startsWith(head), `${buffers} buffers of `);
      const said = `${await page.locator("#mttf .words").innerText()} ${await outcome.innerText()}`;
      assert.doesNotMatch(said, /NaN|Infinity|undefined|null/, `${buffers} of ${period} ms`);
      if (isOpen) assert.match(said, /still waiting when measuring ended|too short to be replayed|ask laggard qos/);
    }
    for (const key of ["End", "Home", "ArrowRight", "PageUp"]) {
      for (const id of ["buffers", "buffer", "compute"]) await page.locator(`#${id}-slider`).press(key);
    }
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));

    assert.doesNotMatch(await page.locator("main").innerText(), /NaN|Infinity|undefined/);
    assert.deepEqual(seen.errors, []);
  });
}
