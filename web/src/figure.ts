// A figure: a chart with its choices, its data as a table, files of it, and
// how to read it.

import type { ECharts } from "echarts/core";
import { draw, toSvg, type Option } from "./chart";
import { h, tableElement, type Table } from "./dom";
import { count } from "./format";
import { isPrinting, onPalette } from "./theme";

/** What a figure shows at the moment. */
export interface View {
  /** What can be seen, in words, for those who cannot see it. */
  words: string;
  option: Option;
  table: Table;
}

interface Parts {
  /** Names files; unique in the page. */
  id: string;
  title: string;
  /** How to read it. */
  reading: string[];
  choices?: HTMLElement[];
  height?: number;
  view: () => View;
}

/** Rows that a table in the page has at most; the CSV has all. */
const SHOWN_ROWS = 500;

/** Pixels of a chart on paper: A4 or Letter less the margins of the style sheet. */
const PAPER_WIDTH = 680;

export interface Figure {
  element: HTMLElement;
  /** Shows the view again, after a choice has changed it. */
  redraw: () => void;
}

export function figure({ id, title, reading, choices = [], height = 380, view }: Parts): Figure {
  let chart: ECharts | null = null;
  let now = view();
  const canvas = h("div", { class: "chart", role: "img", "aria-label": now.words });
  canvas.style.height = `${height}px`;
  const words = h("p", { class: "words" }, now.words);
  const data = h("details", { class: "data" }, h("summary", {}, "Data as a table"));
  const fillTable = () => {
    if (data.open) data.replaceChildren(data.firstElementChild!, dataTable(title, now.table));
  };
  data.addEventListener("toggle", fillTable);

  const redraw = () => {
    now = view();
    canvas.setAttribute("aria-label", now.words);
    words.textContent = now.words;
    chart?.resize({ width: isPrinting() ? PAPER_WIDTH : "auto" });
    chart?.setOption(now.option, { notMerge: true });
    fillTable();
  };
  const save = (name: string, action: () => void) => h("button", { type: "button", onclick: action, "aria-label": `${name} of ${title}` }, name);
  const element = h(
    "figure",
    { id, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title` }, title),
    h(
      "div",
      { class: "tools" },
      ...choices,
      h(
        "span",
        { class: "files" },
        save("PNG", () => download(`${id}.png`, chart!.getDataURL({ type: "png", pixelRatio: 2 }))),
        save("SVG", () => downloadText(`${id}.svg`, "image/svg+xml", toSvg(now.option, canvas.clientWidth, height))),
        save("CSV", () => downloadText(`${id}.csv`, "text/csv", toCsv(now.table))),
      ),
    ),
    canvas,
    words,
    h("figcaption", {}, h("strong", {}, "How to read it. "), reading.join(" ")),
    data,
  );
  whenInPage(canvas, () => {
    chart = draw(canvas, now.option);
    if (!performance.getEntriesByName("first-chart").length) performance.mark("first-chart");
  });
  onPalette(redraw);
  return { element, redraw };
}

/** ECharts needs the size of its element, which it has once it is in the page. */
function whenInPage(element: HTMLElement, action: () => void): void {
  const observer = new ResizeObserver(() => {
    if (element.clientWidth === 0) return;
    observer.disconnect();
    action();
  });
  observer.observe(element);
}

function dataTable(title: string, table: Table): HTMLElement {
  const left = table.rows.length - SHOWN_ROWS;
  return h(
    "div",
    {},
    tableElement({ head: table.head, rows: table.rows.slice(0, SHOWN_ROWS) }, { caption: `${title}: data` }),
    left > 0 && h("p", {}, `${count(left)} more rows are in the CSV.`),
  );
}

function toCsv({ head, rows }: Table): string {
  const cell = (value: string | number) => {
    // A spreadsheet would run a cell that begins so.
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function download(name: string, address: string): void {
  const link = h("a", { href: address, download: `laggard-${name}` });
  document.body.append(link);
  link.click();
  link.remove();
}

function downloadText(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  download(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
