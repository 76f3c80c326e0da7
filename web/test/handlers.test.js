import assert from "node:assert/strict";
import { test } from "node:test";
import { busy, dataOf, full, near, rowsOf } from "./answers.js";
import { laggard, open, skip } from "./browser.js";

/** Where the test's function of a timer is, which has a hostile name. */
const FUNCTION = "0xffffffff81000010";

/** One sort of handler; the hypervisor may have taken all of its longest but `own_ns`. */
const one = (activity, longest_ns, own_ns = longest_ns) => ({
  activity,
  count: 12_345,
  total_ns: 50_000_000,
  longest_ns,
  longest_at_ns: 1_500_000_000,
  longest_cpu: 1,
  longest_own_ns: own_ns,
  times: [{ below_ns: 20_000, count: 12_344 }, { below_ns: 2 * longest_ns, count: 1 }],
});

/** Counts of as many interrupts as given, a timer's function that was stretched, and a work item. */
const counted = (interrupts) => ({
  from_ns: 0,
  to_ns: 10_000_000_000,
  cpus: 2,
  stolen_is_seen: true,
  handlers: [
    ...Array.from({ length: interrupts }, (_, number) => one({ irq: number }, 30_000 + number)),
    one({ hrtimer: FUNCTION }, 13_000_000, 60_000),
    one({ work: FUNCTION }, 20_000_000),
  ],
  missing: { runs: 2 },
});

test("the handlers on the page are those of why --handlers", { skip }, async (t) => {
  const { recording, file } = full(t, counted(30));
  const why = JSON.parse(laggard("why", recording, "--handlers", "--json"));
  const { page, seen } = await open(t, file);

  const said = await page.locator("#handlers").innerText();
  assert.equal(why.verdict.kind, "none_without_steal");
  assert.match(said, /No handler is known to have run for/);
  const tables = page.locator("#handlers table");
  assert.equal(await tables.count(), 2);
  for (const [place, rows] of [why.handlers, why.works].entries()) {
    const shown = await rowsOf(page, `:nth-match(#handlers table, ${place + 1}) tbody tr`);
    assert.equal(shown.length, Math.min(rows.length, 20));
    for (const [index, cells] of shown.entries()) {
      assert.equal(cells[0], rows[index].who);
      assert.equal(cells[1], rows[index].count.toString().replace(/\B(?=(\d{3})+$)/g, ","));
      near(cells[3], rows[index].p999_ns);
      near(cells[4], rows[index].longest_ns);
    }
  }
  const stretched = (await rowsOf(page, ":nth-match(#handlers table, 1) tbody tr"))[0];
  assert.equal(stretched[5], ">= 60.0 us");
  assert.match(said, /11 more, none longer than 30\.0 us/);
  assert.equal(seen.dialogs, 0);
  assert.deepEqual(seen.errors, []);
});

test("a recording that did not count handlers has no section of them", { skip }, async (t) => {
  const { file } = busy(t);
  const { page } = await open(t, file);

  assert.equal(dataOf(file).charts[0].handlers, null);
  assert.equal(await page.locator("#handlers").count(), 0);
});

test("a work item that ran alone has a table, and what is not told no row", { skip }, async (t) => {
  const { file } = full(t, { ...counted(0), handlers: [one({ work: FUNCTION }, 20_000_000)], missing: { runs: 0 } });
  const { page } = await open(t, file);

  assert.equal(await page.locator("#handlers table").count(), 1);
  assert.match(await page.locator("#handlers caption").innerText(), /^Work items/);
  assert.ok(!(await page.locator("#handlers").innerText()).includes("more sort"));
});
