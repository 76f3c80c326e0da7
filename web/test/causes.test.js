import assert from "node:assert/strict";
import { test } from "node:test";
import { busy, dataOf, full, near, rowsOf } from "./answers.js";
import { laggard, open, skip } from "./browser.js";

test("the causes on the page are those of why --json", { skip }, async (t) => {
  const { recording, file } = full(t);
  const why = JSON.parse(laggard("why", recording, "--json"));
  const { page } = await open(t, file);

  const { causes } = dataOf(file).charts[0];
  assert.deepEqual(causes.why, why);
  for (const summary of await page.locator("#causes details:not(.data) > summary").all()) if (await summary.isVisible()) await summary.click();
  // First those of the service that the first screen speaks of.
  for (const [place, shown] of [causes.foremost.why, why].entries()) {
    const rows = await rowsOf(page, `#causes :nth-match(.ranking, ${place + 1}) tbody tr`);
    assert.equal(rows.length, shown.causes.length);
    for (const [index, cause] of shown.causes.entries()) {
      assert.equal(rows[index][1], cause.who ?? "");
      near(rows[index][5], cause.total_ns);
      near(rows[index][8], cause.largest_without_ns);
    }
  }
  const said = await page.locator("#causes").innerText();
  for (const sentence of why.sentences) assert.ok(said.includes(sentence), sentence);
});

test("the causes on the page have the order and the shares of the first screen", { skip }, async (t) => {
  const { file } = full(t);
  const { report, charts } = dataOf(file);
  const { late } = report.overviews[0];
  const { page } = await open(t, file);

  const rows = await rowsOf(page, "#causes :nth-match(.ranking, 1) tbody tr");

  assert.ok(late.causes.length > 0 && late.service !== null);
  for (const [index, { share, largest_ns }] of late.causes.entries()) {
    assert.equal(Math.round(Number.parseFloat(rows[index][6])), Math.round(100 * share));
    near(rows[index][7], largest_ns);
  }
  const head = await page.locator("#causes .sentence").first().innerText();
  assert.equal(head, `${charts[0].causes.foremost.head}.`);
  assert.match(head, /^Who made the SCHED_FIFO 90 late \(/);
});

test("a leading cause is among the things to do", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file);

  const todo = await page.locator("#todo .advice").first().innerText();
  const { why } = dataOf(file).charts[0].causes;

  assert.match(todo, /Preemption disabled: .*the largest part of .* episodes?/);
  assert.equal(why.causes[0].class, "preemption_off");
  assert.match(todo, /Use a kernel that can be preempted there/);
});

test("a recording without episodes has no section of causes", { skip }, async (t) => {
  const { file } = busy(t);
  const { page } = await open(t, file);

  assert.equal(await page.locator("#causes").count(), 0);
});

test("the flame graph holds the time of all episodes, and the keyboard walks it", { skip }, async (t) => {
  const { file } = full(t);
  const { why, flame, classes } = dataOf(file).charts[0].causes;
  const { page } = await open(t, file);
  const words = page.locator("#flame .words");

  assert.equal(flame.ns, why.total_ns);
  assert.equal(flame.within.reduce((sum, { ns }) => sum + ns, 0), why.total_ns);
  await page.locator('#flame [role="treeitem"][tabindex="0"]').focus();
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-level") === "2");
  assert.ok((await words.innerText()).startsWith(`${classes[0].words}: `), await words.innerText());
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-level") === "3");
  assert.match(await words.innerText(), / > /);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-level") === "1");
});

test("an episode's timeline has all of its latency, and another can be chosen", { skip }, async (t) => {
  const { late, file } = full(t);
  const { page } = await open(t, file);
  const worst = late.toSorted((a, b) => b.latency - a.latency);

  await page.locator("#episode .data summary").click();
  const timeOf = async () => (await rowsOf(page, "#episode .data tbody tr")).reduce((sum, [, ns]) => sum + Number(ns), 0);
  assert.equal(await timeOf(), worst[0].latency);
  await page.locator("#episode select").selectOption({ index: 1 });

  assert.equal(await timeOf(), worst[1].latency);
  await page.locator("#episode .calls summary").click();
  assert.match(await page.locator("#episode .calls").innerText(), /\d+ samples, at 50.0 us: .*do_syscall_64/);
});

test("late activations that are episodes are marked with their class", { skip }, async (t) => {
  const { late, file } = full(t);
  const { page } = await open(t, file);

  await page.locator("#over-time summary").click();
  const rows = await rowsOf(page, "#over-time tbody tr");

  const marked = rows.filter(([, , , , cause]) => cause === "preemption disabled");
  assert.deepEqual(marked.map(([at]) => Number(at)).sort(), late.map(({ at }) => at).sort());
});
