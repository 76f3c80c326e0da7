import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { HOSTILE, busy, full, near, rowsOf } from "./answers.js";
import { editManifest, laggard, open, play, report, scratch, skip } from "./browser.js";
import { BUSY, STALLED } from "./scripts.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Words of the terminal for a service. */
const nameOf = ({ service, route }) => {
  const words = { irq: "timer IRQ", softirq: "softirq", worker: "kworker", other: "SCHED_OTHER" }[service] ?? service.replace("fifo:", "SCHED_FIFO ");
  return route === "deferred" && /fifo|other/.test(service) ? `${words} via softirq` : words;
};

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
    assert.equal(name, nameOf(shown.services[index]));
    assert.equal(Number(samples.replaceAll(",", "")), latency.samples);
    assert.equal(Number(missedText.replaceAll(",", "")), missed);
    near(min, latency.min_ns);
    near(rows[index].at(-2), latency.largest_ns);
    for (const [place, { ns }] of latency.quantiles.entries()) near(rows[index][6 + place], ns);
  }
});

test("above the fold are the verdict on the machine, four numbers and a picture", { skip }, async (t) => {
  const dir = scratch(t);
  // Fine enough for an estimate.
  const recording = play(dir, "stalled", STALLED.replace("period_ns = 1000000", "period_ns = 250000"), "--duration", "15s");
  const { latency } = JSON.parse(laggard("show", recording, "--json")).recordings[0].services.find(({ service }) => service === "fifo:90");
  const { outlook } = JSON.parse(laggard("qos", recording, "--app", "jack-128", "--json")).loads[0].services.find(({ is_own }) => is_own);
  const said = laggard("show", recording).split("\n").find((line) => line.startsWith("NOT FIT"));

  const { page } = await open(t, report(dir, recording), { width: 1440, height: 900 });
  await page.locator("#verdict .machine-verdict strong").first().waitFor();

  assert.ok(outlook.mttf_high_ns < 3.6e12, "the script makes JACK miss often");
  // The sentence of the terminal.
  const verdict = await page.locator("#verdict .machine-verdict .bad", { hasText: "NOT FIT" }).first().innerText();
  assert.match(verdict, /^NOT FIT \d+ profiles; best: /);
  assert.equal(verdict.split(", ")[1].slice(0, 12), said.split(", ")[1].slice(0, 12));
  const numbers = await page.locator("#verdict .numbers > div").evaluateAll((all) => all.map((one) => [...one.children].map((part) => part.textContent)));
  near(numbers[0][1], latency.quantiles[0].ns);
  near(numbers[1][1], latency.quantiles.find(({ q }) => q === 0.999).ns);
  near(numbers[2][1], latency.largest_ns);
  assert.equal(numbers[3][0], "xruns of jack-128");
  const mean = numbers[3][1].replace("every ", "").split(" ");
  const found = Number(mean[0]) * { ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12 }[mean[1]];
  // As few digits as its clusters carry.
  assert.ok(Math.abs(found / outlook.mttf_ns - 1) < 0.5, `${numbers[3][1]} is not ${outlook.mttf_ns} ns`);
  for (const part of [".machine-verdict", ".numbers", "#distribution .chart"]) {
    const { y, height } = await page.locator(`#verdict ${part}`).boundingBox();
    assert.ok(y + height <= 900, `${part} ends at ${y + height}`);
  }
});

test("what cannot be trusted says so before anything about the machine", { skip }, async (t) => {
  const { dir, recording } = busy(t);
  editManifest(recording, (manifest) => manifest.caveats.unshift({ kind: "overload", what: "the machine was overloaded", advice: "rest" }, { kind: "rescheduled", what: "made FIFO", advice: "do not" }));

  const { page } = await open(t, report(dir, recording));

  const first = page.locator("#verdict .trust, #verdict .machine-verdict").first();
  const text = await first.innerText();
  assert.match(text, /^NOT A MEASUREMENT .*\n+NOT TRUSTWORTHY /);
  assert.ok(text.indexOf("NOT TRUSTWORTHY") < text.indexOf("Application fit"), text);
});

test("three curves are drawn at first, and others can be switched on", { skip }, async (t) => {
  const dir = scratch(t);
  const line = (service, route, last) => `[[line]]\nservice = "${service}"\nroute = "${route}"\nsteps = [[["irq", 2000], ["waking", 900], ["${last}", 1400]]]\n`;
  const script = `period_ns = 1000000\n${["fifo:90", "fifo:50", "other"].map((service) => line(service, "direct", "user")).join("")}${line("fifo:90", "deferred", "user")}`;
  const { page } = await open(t, report(dir, play(dir, "four", script, "--duration", "3s")));
  const words = page.locator("#distribution .words");
  const drawn = async () => (await words.innerText()).split("; ").map((text) => text.split(": ")[0]);

  assert.deepEqual(await drawn(), ["timer IRQ", "SCHED_FIFO 90", "SCHED_OTHER"]);
  await page.locator("#distribution").getByLabel("SCHED_FIFO 50", { exact: true }).check();
  await page.locator("#distribution").getByLabel("timer IRQ", { exact: true }).uncheck();

  assert.deepEqual(await drawn(), ["SCHED_FIFO 90", "SCHED_FIFO 50", "SCHED_OTHER"]);
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

  await page.locator("#distribution select").nth(1).selectOption("SCHED_FIFO 90, per CPU");

  assert.notEqual(await words.innerText(), before);
  assert.match(await words.innerText(), /^SCHED_FIFO 90, CPU 0: /);
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
  assert.match(await page.locator("#distribution .words").innerText(), /SCHED_FIFO 90 \[1\].*SCHED_FIFO 90 \[2\]/);
  // Each is answered for by itself.
  const cells = await page.locator("#verdict tr", { hasText: "xruns of jack-128" }).locator("td").allTextContents();
  assert.equal(cells.length, 2);
  for (const cell of cells) assert.match(cell, /^(fit|not fit|unknown); /);
});

test("of two recordings, the conditions that differ are shown, and no others", { skip }, async (t) => {
  const dir = scratch(t);
  const [first, second] = ["first", "second"].map((name) => play(dir, name, BUSY, "--duration", "5s"));
  for (const [recording, kernel, words] of [
    [first, "6.12.9", "quiet isolcpus=1"],
    [second, "6.18.0", "quiet nohz_full=1"],
  ]) {
    editManifest(recording, (manifest) => {
      manifest.host.kernel = kernel;
      manifest.host.command_line = words;
    });
  }

  const { page } = await open(t, report(dir, first, second));

  const rows = await rowsOf(page, '#verdict .scroll:has(caption:has-text("What differs")) tbody tr');
  assert.deepEqual(rows.map(([name]) => name), ["kernel", "kernel command line"]);
  assert.match(rows[0][1], /^6.12.9/);
  assert.deepEqual(rows[1].slice(1), ["isolcpus=1", "nohz_full=1"]);
});

test("losses have the terminal's words, and the programs' costs are folded", { skip }, async (t) => {
  const { dir, recording } = busy(t);
  editManifest(recording, (manifest) => {
    manifest.losses = { ...manifest.losses, ring_full: 7 };
    manifest.cost = { ...manifest.cost, wall_ns: 1e10, programs: [{ name: "on_sched_switch", runs: 1000, run_ns: 250000 }] };
  });

  const { page } = await open(t, report(dir, recording));

  // It goes on in the next line of a narrow terminal.
  const [, first] = laggard("show", "--all", recording).match(/^Lost: (.*(?:\n  .*)*)$/m);
  const said = first.replace(/\n +/g, " ");
  const rows = await rowsOf(page, '#doubts .scroll:has(caption:has-text("Losses")) tbody tr');
  for (const [words, times] of rows) assert.ok(said.includes(`${words} ${times}`), `${words} ${times} is not in ${said}`);
  assert.equal(await page.locator("#doubts caption", { hasText: "7 wakeups lost" }).count(), 1);
  const program = page.locator("#doubts details", { hasText: "on_sched_switch" });
  assert.equal(await program.getAttribute("open"), null);
  await program.locator("summary").click();
  assert.ok((await program.innerText()).includes("250 ns"));
});

test("headings are in order, tables have captions and pictures a text", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file);

  const levels = await page.locator("h1, h2, h3, h4, h5").evaluateAll((all) => all.map(({ tagName }) => Number(tagName[1])));
  assert.equal(levels[0], 1);
  for (const [index, level] of levels.entries()) assert.ok(index === 0 || level <= levels[index - 1] + 1, `${levels}`);
  assert.equal(await page.locator("table:not(:has(caption))").count(), 0);
  for (const label of await page.locator(".chart[role=img]").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")))) assert.ok(label);
});

test("no table is wider than the paper, which would shrink the print", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file, { width: 688, height: 1000 });
  await page.emulateMedia({ media: "print" });
  for (const summary of await page.locator("summary").all()) await summary.evaluate((one) => (one.parentElement.open = true));

  const wide = await page.locator("main table").evaluateAll((all) =>
    all.filter((table) => table.offsetParent !== null && table.getBoundingClientRect().right > 688).map((table) => `${table.caption.textContent}: ${table.offsetWidth}`),
  );

  assert.deepEqual(wide, []);
});

test("on a phone a table that scrolls says so, and no other does", { skip }, async (t) => {
  const { file } = full(t);
  const { page } = await open(t, file, { width: 390, height: 844 });
  // What is folded has no width, and says so once it is opened.
  await page.locator("details").evaluateAll((all) => all.forEach((one) => (one.open = true)));
  const isSettled = () => [...document.querySelectorAll("main .scroll")].every((one) => one.scrollWidth > one.clientWidth + 1 === one.classList.contains("wide"));
  await page.waitForFunction(isSettled, null, { timeout: 5000 });

  const tables = await page.locator("main .scroll").evaluateAll((all) =>
    all.map((one) => ({ isWide: one.scrollWidth > one.clientWidth + 1, says: one.classList.contains("wide") && one.tabIndex === 0 && one.getAttribute("aria-label").includes("scrolls") })),
  );

  assert.ok(tables.some(({ isWide }) => isWide));
  for (const { isWide, says } of tables) assert.equal(says, isWide);
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
