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

/** Returns text in which `...` marks user input. */
export function prose(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const parts = text.split("`");
  // An odd number of marks: not ours, so it stays as it is.
  if (parts.length % 2 === 0) fragment.append(text);
  else fragment.append(...parts.map((part, index) => (index % 2 === 0 ? part : h("code", {}, part))));
  return fragment;
}

/** Table that is shown and can be saved as CSV. */
export interface Table {
  head: string[];
  rows: (string | number)[][];
}

/** Class of the cells of a column: words, numbers, or long text that is broken into lines. */
export type ColumnClass = "word" | "number" | "long";

interface TableOptions {
  /** Text above the table. Without it, screen readers get the name of the row headers. */
  caption?: string;
  /** Leading columns that hold words; the others are aligned as numbers. */
  words?: number;
  /** Kind of each column, instead of `words` and `long`. */
  kinds?: ColumnClass[];
  /** Columns of long text, which is broken into lines. */
  long?: number[];
}

/** Returns a table whose first column of words names its rows. If it is wider than its
 * container, it scrolls and indicates this. */
export function tableElement({ head, rows }: Table, { caption, words = 1, long = [], kinds }: TableOptions): HTMLElement {
  const kind = (column: number): ColumnClass => kinds?.[column] ?? (long.includes(column) ? "long" : column < words ? "word" : "number");
  const named = Math.max(0, kinds?.findIndex((kind) => kind !== "number") ?? 0);
  const cell = (text: string | number, column: number) =>
    column === named ? h("th", { scope: "row", class: kind(column) }, unbroken(String(text))) : h("td", { class: kind(column) }, String(text));
  const scroll = h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("caption", {}, h("span", {}, caption ?? h("span", { class: "unseen" }, head[named] ?? ""))),
      h("thead", {}, h("tr", {}, ...head.map((name, column) => h("th", { scope: "col", class: kind(column) }, unbroken(name))))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell)))),
    ),
  );
  sayWhereWide(scroll, caption ?? head[named] ?? "");
  return scroll;
}

/** A number and its unit stay on one line. */
const unbroken = (text: string) => text.replace(/(\d) (?=[a-z%])/g, "$1\u00a0");

/** Marks what is wider than its room: the style says that it scrolls, and the keyboard reaches it. */
function sayWhereWide(scroll: HTMLElement, name: string): void {
  const look = () => {
    const isOver = () => scroll.scrollWidth > scroll.clientWidth + 1;
    scroll.classList.remove("wide", "tight");
    // The names of its rows may be broken before it scrolls.
    scroll.classList.toggle("tight", isOver());
    const isWide = isOver();
    scroll.classList.toggle("wide", isWide);
    const attributes: [string, string][] = [["tabindex", "0"], ["role", "region"], ["aria-label", `${name}; scrolls sideways`]];
    for (const [attribute, value] of attributes) {
      if (isWide) scroll.setAttribute(attribute, value);
      else scroll.removeAttribute(attribute);
    }
  };
  new ResizeObserver(look).observe(scroll);
}

/** Returns a list of terms and their values. */
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
