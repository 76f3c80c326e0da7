import assert from "node:assert/strict";
import { test } from "node:test";
import { busy, near, rowsOf } from "./answers.js";
import { editManifest, laggard, open, play, report, scratch, skip } from "./browser.js";
import { CONTEXTS } from "./scripts.js";

test("who does deferred work on the page is what show tells of it", { skip }, async (t) => {
  const dir = scratch(t);
  const recording = play(dir, "contexts", CONTEXTS, "--duration", "10s");
  editManifest(recording, ({ plan }) => {
    plan.contexts = { cpu: 0, busy: 4, turn_ns: 10_000_000 };
  });
  const { contexts } = JSON.parse(laggard("show", recording, "--json")).recordings[0];
  const printed = laggard("show", recording, "--all");
  const sentence = "Mean latency of work next to 4 busy processes on CPU 0";
  const { page, seen } = await open(t, report(dir, recording));

  assert.equal(await page.locator("#contexts caption").innerText(), "Next to 4 busy processes on CPU 0");
  const said = await page.locator("#contexts").innerText();
  assert.ok(said.includes(sentence), said);
  assert.ok(printed.includes(sentence), printed);
  const shown = await rowsOf(page, "#contexts tbody tr");
  assert.deepEqual(contexts.rows.map(({ context }) => context), ["any", "boosted", "plain"]);
  assert.equal(shown.length, 3);
  for (const [index, cells] of shown.entries()) {
    const row = contexts.rows[index];
    assert.ok(printed.includes(cells[0]), cells[0]);
    assert.equal(cells[2], row.samples.toString().replace(/\B(?=(\d{3})+$)/g, ","));
    near(cells[3], row.mean_ns);
    near(cells[4], row.median_ns);
    near(cells[6], row.largest_ns);
    near(cells[7], row.bumps?.every_ns);
  }
  assert.ok(contexts.rows[2].bumps, "no bumps");
  assert.deepEqual(seen.errors, []);
});

test("a recording without busy processes has no section of contexts", { skip }, async (t) => {
  const { file } = busy(t);
  const { page } = await open(t, file);

  assert.equal(await page.locator("#contexts").count(), 0);
});
