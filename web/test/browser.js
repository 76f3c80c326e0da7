// Reports to look at, and a browser to look at them with.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const BROWSER = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PROGRAM = process.env.LAGGARD ?? new URL("../../target/debug/laggard", import.meta.url).pathname;

/** Why pages cannot be tested here, or false. */
export const skip = existsSync(BROWSER) ? false : `there is no ${BROWSER}; name one in CHROMIUM`;

/** A folder of its own, gone at the end. */
export function scratch(t) {
  const dir = mkdtempSync(join(tmpdir(), "laggard-page-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Runs the program. Exit code 3 says that a script is not trustworthy, and 1 that tasks miss, not that it failed. */
export function laggard(...args) {
  try {
    return execFileSync(PROGRAM, args, { encoding: "utf8", maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    if (error.status === 3 || (error.status === 1 && ["sched", "forecast"].includes(args[0]))) return error.stdout;
    throw error;
  }
}

/** Plays a script into a recording. */
export function play(dir, name, script, ...args) {
  const file = join(dir, `${name}.toml`);
  writeFileSync(file, script);
  const recording = join(dir, `${name}.laggard`);
  laggard("record", "--quiet", "--backend", `fake:${file}`, "--output", recording, ...args);
  return recording;
}

/** Changes what a recording says of itself. */
export function editManifest(recording, edit) {
  const file = join(recording, "manifest.json");
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  edit(manifest);
  writeFileSync(file, JSON.stringify(manifest));
}

/** The report of recordings as a file; arguments of `report` may be among them. */
export function report(dir, ...recordings) {
  const file = join(dir, "report.html");
  laggard("report", ...recordings, "--output", file);
  return file;
}

/** Opens a file in a fresh browser; collects what must not happen. */
export async function open(t, file, { scheme = "light", width = 1280, height = 900 } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "laggard-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: BROWSER,
    headless: true,
    viewport: { width, height },
    colorScheme: scheme,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  t.after(async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  });
  const page = context.pages()[0] ?? (await context.newPage());
  const seen = { errors: [], requests: [], dialogs: 0 };
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.errors.push(message.text());
  });
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("dialog", async (dialog) => {
    seen.dialogs += 1;
    await dialog.dismiss();
  });
  const address = pathToFileURL(file).href;
  await page.goto(address);
  await page.locator("main section").first().waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".chart")].every((chart) => chart.querySelector("canvas, svg")));
  return { page, seen, address };
}
