// Reports for the tests, and how to read them.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { play, report, scratch } from "./browser.js";
import { writeEpisodes } from "./episodes.js";
import { BUSY, TASKS } from "./scripts.js";

export const HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">';

/** A recording of ten seconds and its report. */
export function busy(t) {
  const dir = scratch(t);
  const recording = play(dir, "busy", BUSY, "--duration", "10s");
  return { dir, recording, file: report(dir, recording) };
}

/** The same with episodes, whose culprit has a hostile name, a task set, and what is given of the kernel's handlers. */
export function full(t, handlers) {
  const { dir, recording, file } = busy(t);
  const course = dataOf(file).charts[0].courses.find(({ name }) => name === "SCHED_FIFO 90");
  let at = 0;
  const late = course.points.after_ns
    .map((after, index) => ({ at: (at += after), latency: course.points.latency_ns[index] }))
    .filter(({ latency }) => latency > 1e6);
  writeEpisodes(recording, { line: 0, cpu: 0, late, name: HOSTILE, handlers });
  const set = join(dir, "tasks.toml");
  writeFileSync(set, TASKS);
  const tasks = ["--tasks", set];
  return { dir, recording, tasks, late, file: report(dir, recording, ...tasks) };
}

/** The data that a page has embedded. */
export function dataOf(file) {
  const [, json] = readFileSync(file, "utf8").match(/<script id="laggard-data" type="application\/json">(.*?)<\/script>/s);
  return JSON.parse(json);
}

/** The texts of a table's rows, once it has some. */
export async function rowsOf(page, selector) {
  const rows = page.locator(selector);
  await rows.first().waitFor();
  return rows.evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
}

/** A text such as `13.4 us` says `ns`, to three digits; a dash says that there is none. */
export function near(text, ns) {
  if (ns === undefined || ns === null) return assert.equal(text, "-");
  const [number, unit] = text.split(" ");
  const found = Number(number) * { ns: 1, us: 1e3, ms: 1e6, s: 1e9 }[unit];
  assert.ok(Math.abs(found - ns) <= 0.006 * ns, `${text} is not ${ns} ns`);
}
