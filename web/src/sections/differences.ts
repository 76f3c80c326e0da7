// Known differences between recordings and their machines.

import type { PageData } from "../data";
import { h, tableElement } from "../dom";
import { COMMAND_LINE, facts } from "./facts";

/** A table of the conditions that differ, or a sentence that none does. */
export function differences({ report: { recordings }, charts }: PageData): HTMLElement {
  const all = recordings.map((recording, index) => facts(recording, charts[index]!));
  const rows = all[0]!
    .map(([name], index) => [name, ...apart(name, all.map((one) => one[index]![1] ?? "-"))])
    .filter(([, first, ...others]) => others.some((value) => value !== first));
  if (rows.length === 0) return h("p", {}, "Nothing that is known of their conditions differs.");
  return tableElement(
    { head: ["", ...recordings.map((_, index) => `[${index + 1}]`)], rows },
    { caption: "What differs between them", long: recordings.map((_, index) => index + 1) },
  );
}

/** Of kernel command lines, only the words that are not in all of them. */
function apart(name: string, values: string[]): string[] {
  if (name !== COMMAND_LINE) return values;
  const words = values.map((value) => value.split(/\s+/));
  const own = (these: string[]) => these.filter((word) => !words.every((others) => others.includes(word)));
  return words.map((these) => own(these).join(" ") || "-");
}
