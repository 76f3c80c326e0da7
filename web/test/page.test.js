import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { HOSTILE, busy, full, near, rowsOf } from "./answers.js";
import { editManifest, laggard, open, play, report, scratch, skip } from "./browser.js";
import { BUSY } from "./scripts.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
test("the figures on the page are those of show --json", { skip }, async (t) => {
  const { recording, file } = busy(t);
  const shown = JSON.parse(laggard("show", recording, "--json")).recordings[0];

  const { page } = await open(t, file);

  const embedded = await page.locator("#laggard-data").evaluate((element) => JSON.parse(element.textContent).report.recordings[0]);
  assert.deepEqual(embedded, shown);
  const rows = await rowsOf(page, "#services tbody tr");
  assert.equal(rows.length, shown.services.length);
  for (const [index, { service, missed, latency }] of shown.services.entries()) {
    const [name, samples, missedText, min] = rows[index];
    assert.equal(name, service);
    assert.equal(Number(samples.replaceAll(",", "")), latency.samples);
    assert.equal(Number(missedText.replaceAll(",", "")), missed);
    near(min, latency.min_ns);
    near(rows[index].at(-2), latency.largest_ns);
    for (const [place, { ns }] of latency.quantiles.entries()) near(rows[index][6 + place], ns);
  }
  for (const sentence of shown.sentences) assert.ok((await page.locator("#verdict").innerText()).includes(sentence));
});

test("every activation above the threshold is in the table of latency over time", { skip }, async (t) => {
  const { recording, file } = busy(t);
  const { page } = await open(t, file);
  const { plan, services, histograms } = JSON.parse(laggard("show", recording, "--json")).recordings[0];
  const fifo = services.find(({ service }) => service === "fifo:90");

  await page.locator("#over-time summary").click();
  const rows = await rowsOf(page, "#over-time tbody tr");

  const bucketOf = (ns) => Math.ceil(64 * Math.log2(ns));
  const above = (buckets) => buckets.filter(([bucket]) => bucket > bucketOf(plan.threshold_ns));
  const counted = above(histograms.find(({ service }) => service === "fifo:90").buckets);
  const late = rows.filter(([, , latency]) => bucketOf(Number(latency)) > bucketOf(plan.threshold_ns));
  assert.ok(late.length >= 5, "the stall is 8 periods long");
  assert.equal(
    late.length,
    counted.reduce((sum, [, count]) => sum + count, 0),
  );
  assert.ok(late.some(([, , , missed]) => missed === "yes"));
  assert.equal(Number(rows[0][2]), fifo.latency.largest_ns);
});

test("the stages drawn add up to the latency", { skip }, async (t) => {
  const { recording, file } = busy(t);
  const { services } = JSON.parse(laggard("show", recording, "--json")).recordings[0];
  const { page } = await open(t, file);

  await page.locator("#timeline summary").click();
  const rows = await rowsOf(page, "#timeline tbody tr");

  const of = (kind) => rows.filter(([name]) => name === kind).map(([, , , ns]) => Number(ns));
  assert.deepEqual(of("typical"), [2000, 704, 896, 1504, 1400]);
  assert.equal(
    of("worst").reduce((sum, ns) => sum + ns, 0),
    services.find(({ service }) => service === "fifo:90").latency.largest_ns,
  );
});

test("a choice changes what a figure shows", { skip }, async (t) => {
  const { file } = busy(t);
  const { page } = await open(t, file);
  const words = page.locator("#distribution .words");
  const before = await words.innerText();

  await page.locator("#distribution select").nth(1).selectOption("fifo:90, CPU by CPU");

  assert.notEqual(await words.innerText(), before);
  assert.match(await words.innerText(), /^fifo:90, CPU 0: /);
});

test("nothing goes wrong and nothing leaves the file", { skip }, async (t) => {
  const { file } = full(t);
  const { page, seen, address } = await open(t, file);

  await page.getByRole("button", { name: "Light or dark" }).click();
  for (const summary of await page.locator("figure summary").all()) await summary.click();

  assert.deepEqual(seen.errors, []);
  assert.deepEqual(seen.requests.filter((url) => url !== address && !url.startsWith("data:")), []);
});

test("the page may not ask the network for anything", { skip }, async (t) => {
  const { file } = busy(t);
  const { page } = await open(t, file);

  const refused = await page.evaluate(() =>
    fetch("http://127.0.0.1:9/").then(
      () => false,
      () => true,
    ),
  );
  const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content");

  assert.ok(refused);
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|http/);
});

test("every chart can be saved as PNG, SVG and CSV", { skip }, async (t) => {
  const { dir, file } = full(t);
  const { page: first } = await open(t, file);
  const ids = await first.locator("figure").evaluateAll((figures) => figures.map(({ id }) => id));

  assert.equal(ids.length, 6);
  for (const id of ids) {
    // A browser asks before it saves the eleventh file of one page.
    const { page, seen } = await open(t, file);
    const figure = page.locator(`#${id}`);
    for (const [kind, begins] of [["PNG", "\x89PNG"], ["SVG", "<svg"], ["CSV", /^\w/]]) {
      const saved = page.waitForEvent("download", { timeout: 30_000 }).catch(() => assert.fail(`no ${kind} of #${id}: ${seen.errors}`));
      await figure.getByRole("button", { name: kind }).click();
      const to = join(dir, (await saved).suggestedFilename());
      await (await saved).saveAs(to);
      const content = readFileSync(to, "latin1");
      assert.ok(typeof begins === "string" ? content.startsWith(begins) : begins.test(content), `${to}`);
    }
  }
});

test("names from a recording stay text", { skip }, async (t) => {
  const { dir, recording, tasks } = full(t);
  editManifest(recording, (manifest) => {
    manifest.load = { ...manifest.load, name: HOSTILE, command: [HOSTILE] };
    manifest.host.node = HOSTILE;
    manifest.host.kernel = HOSTILE;
    manifest.caveats.unshift({ kind: "stolen", what: HOSTILE, advice: HOSTILE });
  });

  const { page, seen } = await open(t, report(dir, recording, ...tasks));
  for (const summary of await page.locator("summary").all()) await summary.click();
  await page.waitForTimeout(300);

  assert.equal(seen.dialogs, 0);
  assert.deepEqual(seen.errors, []);
  assert.equal(await page.locator("main img, main script").count(), 0);
  assert.ok((await page.locator("#verdict").innerText()).includes("<script>alert(1)</script>"));
  assert.ok((await page.locator("#machine").innerText()).includes(HOSTILE));
  for (const place of ["#causes", "#flame", "#episode"]) {
    assert.ok((await page.locator(place).innerText()).includes("<script>alert"), place);
  }
  assert.ok((await page.locator("#schedulability").innerText()).includes("<b>fast</b>"));
  const markdown = laggard("report", "--markdown", recording);
  assert.ok(!markdown.includes("<script") && !markdown.includes("<img"), markdown);
});

test("two recordings stand side by side", { skip }, async (t) => {
  const dir = scratch(t);
  const first = play(dir, "first", BUSY, "--duration", "5s");
  const second = play(dir, "second", BUSY.replaceAll("1504", "9504"), "--duration", "5s");

  const { page, seen } = await open(t, report(dir, first, second));

  assert.deepEqual(seen.errors, []);
  assert.deepEqual(await page.locator("#services thead").first().locator("th").allTextContents(), ["figure", "[1]", "[2]"]);
  assert.match(await page.locator("#distribution .words").innerText(), /fifo:90 \[1\].*fifo:90 \[2\]/);
});

for (const scheme of ["light", "dark"]) {
  test(`axe finds nothing serious in ${scheme}`, { skip }, async (t) => {
    const { file } = full(t);
    const { page } = await open(t, file, { scheme });
    for (const summary of await page.locator("summary").all()) await summary.click();

    // The page's policy forbids scripts in it; the debugger may still run one.
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run());

    const found = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    assert.deepEqual(
      found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`),
      [],
    );
  });
}

test("the page is usable from the keyboard", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file);

  const reached = new Set();
  for (let presses = 0; presses < 90; presses += 1) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement?.tagName.toLowerCase()));
  }

  for (const tag of ["a", "button", "select", "summary", "input", "g"]) assert.ok(reached.has(tag), `${tag} is not reached`);
});

test("a narrow screen does not scroll sideways", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file, { width: 390, height: 844 });

  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

  assert.equal(wider, 0);
});
