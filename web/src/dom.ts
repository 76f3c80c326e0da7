// Elements. Text goes in as text, never as markup: names come from recordings.

type Child = Node | string | null | undefined | false;
type Value = string | number | boolean | ((event: Event) => void);

/** An element with attributes (`on...` are listeners) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child != null && child !== false));
  return element;
}

/** An element of an SVG image. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number> = {},
  ...children: Node[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Text in which `...` is something to type. */
export function prose(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const parts = text.split("`");
  // An odd number of marks: not ours, so it stays as it is.
  if (parts.length % 2 === 0) fragment.append(text);
  else fragment.append(...parts.map((part, index) => (index % 2 === 0 ? part : h("code", {}, part))));
  return fragment;
}

/** What is shown as a table and saved as CSV. */
export interface Table {
  head: string[];
  rows: (string | number)[][];
}

interface TableOptions {
  caption: string;
  /** Leading columns that hold words; the others are aligned as numbers. */
  words?: number;
}

/** A table whose first column names its row. It scrolls by itself where the page is narrow. */
export function tableElement({ head, rows }: Table, { caption, words = 1 }: TableOptions): HTMLElement {
  const cell = (text: string | number, column: number) =>
    column === 0
      ? h("th", { scope: "row" }, String(text))
      : h("td", { class: column < words ? "word" : "number" }, String(text));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h(
        "thead",
        {},
        h("tr", {}, ...head.map((name, column) => h("th", { scope: "col", class: column < words ? "word" : "number" }, name))),
      ),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell)))),
    ),
  );
}

/** Words and what they stand for. */
export function definitions(pairs: [string, string | null | undefined][]): HTMLElement {
  const known = pairs.filter((pair): pair is [string, string] => pair[1] != null && pair[1] !== "");
  return h("dl", {}, ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** A section of the page with its heading. */
export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...children);
}

let choices = 0;

/** One of several, with a label. */
export function select(
  label: string,
  options: string[],
  chosen: number,
  onChange: (index: number) => void,
): HTMLElement {
  const id = `choice-${choices++}`;
  const element = h(
    "select",
    { id, onchange: () => onChange(element.selectedIndex) },
    ...options.map((text, index) => h("option", { selected: index === chosen }, text)),
  );
  return h("span", { class: "choice" }, h("label", { for: id }, label), element);
}
