// A document of the program as elements: the same blocks that the terminal and Markdown show.

import type { Block, ColumnKind, Document } from "./types";
import { h, prose, tableElement, type ColumnClass } from "./dom";

/** The blocks of a document, in order. */
export function documentElements({ blocks }: Document): HTMLElement[] {
  return blocks.flatMap(blockElements);
}

const CLASSES: Record<ColumnKind, ColumnClass> = { name: "word", number: "number", sentence: "long" };

const list = (items: string[]) => h("ul", {}, ...items.map((item) => h("li", {}, prose(item))));

function blockElements(block: Block): HTMLElement[] {
  switch (block.kind) {
    case "heading":
      return [h("h3", {}, prose(block.content))];
    case "verdicts":
      return block.content.map(({ tone, word, text }) => h("p", {}, h("strong", { class: tone }, word), " ", prose(text)));
    case "paragraph":
    case "detail":
      return [h("p", {}, prose(block.content))];
    case "lines":
    case "list":
      return [list(block.content)];
    case "notes":
      return [h("p", {}, block.content.title), list(block.content.notes)];
    case "table": {
      const { caption, columns, rows, notes } = block.content;
      const head = columns.map(({ name }) => name);
      const texts = rows.map((row) => row.map(({ text }) => text));
      const kinds = columns.map(({ kind }) => CLASSES[kind]);
      const table = rows.length > 0 ? [tableElement({ head, rows: texts }, { ...(caption ? { caption } : {}), kinds })] : [h("p", {}, caption ?? "")];
      return [...table, ...notes.map((note) => h("p", {}, prose(note)))];
    }
    case "preformatted":
      return [h("pre", {}, block.content.join("\n"))];
    case "figure":
      return [];
  }
}
