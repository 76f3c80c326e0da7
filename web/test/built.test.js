// What is built is in the repository: the program has its page without Node.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { build } from "vite";
import { scratch } from "./browser.js";

const WEB = new URL("..", import.meta.url).pathname;

/** Names and contents of all files below a folder. */
function files(folder) {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  return new Map(names.sort().map((name) => [name, readFileSync(join(folder, name))]));
}

test("the page in the repository is what its sources build, byte by byte", async (t) => {
  const anew = join(scratch(t), "dist");
  await build({ root: WEB, logLevel: "error", build: { outDir: anew } });

  const [here, built] = [files(join(WEB, "dist")), files(anew)];

  const remedy = "run `make page`, and commit web/dist with the change";
  assert.deepEqual([...here.keys()], [...built.keys()], remedy);
  for (const [name, content] of built) assert.ok(content.equals(here.get(name)), `web/dist/${name}: ${remedy}`);
});
