import assert from "node:assert/strict";
import { test } from "node:test";
import { dataOf, full, rowsOf } from "./answers.js";
import { laggard, open, play, report, scratch, skip } from "./browser.js";
import { STALLED, VARYING } from "./scripts.js";

const numbers = (rows) => rows.map((row) => row.slice(1).map((text) => (text === "" ? null : Number(text))));

function agree(found, wanted, what) {
  if (wanted === null || wanted === undefined) return assert.equal(found, null, what);
  assert.ok(Math.abs(found - wanted) <= 1e-6 * Math.abs(wanted) + 1e-9, `${what}: ${found} is not ${wanted}`);
}

for (const [name, script, ...args] of [
  ["stalled", STALLED, "--duration", "45s"],
  ["tail", VARYING, "--duration", "30s", "--keep", "tail"],
]) {
  test(`page has the figures and the text of laggard qos: ${name}`, { skip }, async (t) => {
    const dir = scratch(t);
    const recording = play(dir, name, script, ...args);
    const { page, seen } = await open(t, report(dir, recording));
    await page.locator("#mttf summary").click();

    for (const application of ["jack-128", "modem", "jack-512", "video-call"]) {
      await page.locator("#buffers select").first().selectOption(application);
      await page.waitForFunction((head) => document.querySelector("#mttf .words").textContent.startsWith(head), `${application}, `);

      const { services } = JSON.parse(laggard("qos", recording, "--app", application, "--json")).loads[0];
      const { curve } = services.find(({ service }) => service === "fifo:90");
      const rows = numbers(await rowsOf(page, "#mttf .data tbody tr"));
      assert.equal(rows.length, curve.length, application);
      for (const [index, { buffers, total_ns, figures }] of curve.entries()) {
        const what = `${application}, curve at ${buffers}`;
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
      // Each cell of the tables of `--curve` is on the page.
      const shown = (await page.locator(".outcome").innerText()).replaceAll(/[\s\u00a0]+/g, " ");
      const markdown = laggard("qos", recording, "--app", application, "--markdown");
      const lines = markdown.split("\n").filter((line) => line.startsWith("|") && !/^\|[ :|-]*\|$/.test(line));
      const plain = (text) => text.trim().replaceAll(/[`\\]/g, "").replaceAll(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code))).replaceAll("&gt;", ">").replaceAll("&lt;", "<");
      for (const cell of lines.flatMap((line) => line.split("|").map(plain))) assert.ok(shown.includes(cell), `${cell} in ${shown}`);
    }
    assert.deepEqual(seen.errors, []);
  });
}

test("application of the user comes first", { skip }, async (t) => {
  const dir = scratch(t);
  const recording = play(dir, "stalled", STALLED, "--duration", "5s");
  const file = report(dir, recording, "--app", "modem");
  const { page } = await open(t, file);

  assert.equal(dataOf(file).qos[0].application.name, "modem");
  assert.match(await page.locator("#mttf .words").innerText(), /^modem, 3 buffers\. Time between xruns \(95 % interval\): /);
});

test("forecast on the page has the lines of the terminal", { skip }, async (t) => {
  const { recording, file } = full(t);
  const { page } = await open(t, file);
  const { forecast } = dataOf(file);

  assert.deepEqual(forecast.report, JSON.parse(laggard("forecast", recording, "--json")));
  await page.locator("#forecast summary").click();
  const section = (await page.locator("#forecast").innerText()).replaceAll(/\s+/g, " ");
  for (const option of [[], ["--all"]]) {
    // The page has no next command and no options. Its limits start with a capital letter.
    const terminal = laggard("forecast", recording, ...option).replace(/\n(Also|Next:) [^]*/, "").replaceAll(/\s\(`--all`\)/g, "");
    // The terminal has a colon after a title.
    for (const word of terminal.replaceAll("`", "").split(/:?\s+/)) assert.ok(section.includes(word), `${word} in ${section}`);
  }
  const cells = [forecast.short, forecast.full].flatMap(({ blocks }) => blocks.filter(({ kind }) => kind === "table").flatMap(({ content }) => content.rows.flat()));
  assert.ok(cells.length > 0);
  for (const { text } of cells) assert.ok(section.includes(text), text);
});

test("verdicts of the task set on the page are those of sched", { skip }, async (t) => {
  const { recording, tasks, file } = full(t);
  // Exit code 1: a task misses its deadline.
  const { report, document } = dataOf(file).sched[0];
  const { page } = await open(t, file);

  assert.deepEqual(report, JSON.parse(laggard("sched", recording, ...tasks, "--json")));
  const rows = await rowsOf(page, "#schedulability tbody tr");
  assert.deepEqual(
    rows.map(([name, , , , , , , , , verdict]) => [name, verdict.toLowerCase()]),
    report.tasks.map(({ name, verdict }) => [name, verdict]),
  );
  const cells = document.blocks.find(({ kind }) => kind === "table").content.rows;
  assert.deepEqual(rows, cells.map((row) => row.map(({ text }) => text)));
});
