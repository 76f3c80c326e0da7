// The first screen of the terminal as elements: conditions, verdicts, and the rest.

import { documentElements } from "./document";
import { h, prose } from "./dom";
import type { Block, Document } from "./types";

/** The first heading: the conditions of the recording. */
export function conditions({ blocks }: Document): HTMLElement | null {
  const heading = blocks.find((block) => block.kind === "heading");
  return heading?.kind === "heading" ? h("p", { class: "conditions" }, prose(heading.content)) : null;
}

/** All verdicts, each group below its heading. */
export function verdicts({ blocks }: Document): HTMLElement | null {
  const title = (before: Block | undefined) => (before?.kind === "heading" ? [h("p", { class: "measured" }, prose(before.content))] : []);
  const groups = blocks.flatMap((block, at) => (block.kind === "verdicts" ? [{ verdicts: block.content, before: at > 1 ? blocks[at - 1] : undefined }] : []));
  const first = groups[0]?.verdicts[0];
  if (!first) return null;
  return h(
    "div",
    { class: `machine-verdict ${first.tone}` },
    ...groups.flatMap(({ verdicts, before }) => [...title(before), ...verdicts.map(({ tone, word, text }) => h("p", { class: tone }, h("strong", {}, word), " ", prose(text)))]),
  );
}

/** Everything except the conditions and the verdicts with their headings. */
export function rest({ blocks }: Document): HTMLElement[] {
  const isKept = (block: Block, at: number) =>
    at > 0 && block.kind !== "verdicts" && !(block.kind === "heading" && blocks[at + 1]?.kind === "verdicts");
  return documentElements({ title: "", blocks: blocks.filter(isKept) });
}
