import assert from "node:assert/strict";
import { test } from "node:test";
import { busy, dataOf, full, near, rowsOf } from "./answers.js";
import { laggard, open, skip } from "./browser.js";

test("the causes on the page are those of why --all", { skip }, async (t) => {
  const { recording, file } = full(t);
  const why = JSON.parse(laggard("why", recording, "--json"));
  const { page } = await open(t, file);

  const { causes } = dataOf(file).charts[0];
  assert.equal(causes.series.length, why.series.length);
  for (const summary of await page.locator("#causes details:not(.data) > summary").all()) if (await summary.isVisible()) await summary.click();
  for (const [place, shown] of why.series.entries()) {
    const rows = await rowsOf(page, `#causes :nth-match(.ranking, ${place + 1}) table:first-of-type tbody tr`);
    for (const [index, cause] of shown.causes.entries()) {
      assert.ok(rows[index].at(-1).includes(cause.who ?? ""), rows[index].at(-1));
      near(rows[index][1], cause.time_ns);
      near(rows[index][4], cause.largest_without_ns);
    }
  }
});

test("a leading cause is among the things to do", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file);

  const todo = await page.locator("#todo .advice").first().innerText();

  assert.match(todo, /Preemption disabled: .* of the latency, in .* late wakeups/);
  assert.match(todo, /Use .*PREEMPT_RT/);
});

test("a recording without episodes has no section of causes", { skip }, async (t) => {
  const { file } = busy(t);
  const { page } = await open(t, file);

  assert.equal(await page.locator("#causes").count(), 0);
});

test("the flame graph holds the time of all episodes, and the keyboard walks it", { skip }, async (t) => {
  const { file } = full(t);
  const { flame, classes } = dataOf(file).charts[0].causes;
  const { page } = await open(t, file);
  const words = page.locator("#flame .words");

  assert.equal(flame.within.reduce((sum, { ns }) => sum + ns, 0), flame.ns);
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
