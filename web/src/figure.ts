// A figure: a chart with its choices, its data as a table, files of it, and
// how to read it.

import type { ECharts } from "echarts/core";
import { draw, toSvg, type Option } from "./chart";
import { h, prose, tableElement, type Table } from "./dom";
import { count } from "./format";
import { isPrinting, onPalette } from "./theme";

/** Content of a figure at a given time. */
export interface View {
  /** Description of the visible content, for readers who cannot see it. */
  words: string;
  /** Chart, or a custom image. */
  option?: Option;
  image?: (width: number) => SVGSVGElement;
  /** Height in pixels, if it varies. */
  height?: number;
  table: Table;
}

interface Parts {
  /** Names files; unique in the page. */
  id: string;
  title: string;
  /** How to read it. */
  reading: string[];
  choices?: HTMLElement[];
  /** What stands right below the chart. */
  below?: HTMLElement[];
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

export function figure({ id, title, reading, choices = [], below = [], height = 380, view }: Parts): Figure {
  let chart: ECharts | null = null;
  let now = view();
  const canvas = h("div", { class: "chart" });
  // A custom image can be navigated, so it provides its own description.
  if (now.option) canvas.setAttribute("role", "img");
  const words = h("p", { class: "words", "aria-live": "polite" });
  const data = h("details", { class: "data" }, h("summary", {}, "Data as a table"));
  const fillTable = () => {
    if (data.open) data.replaceChildren(data.firstElementChild!, dataTable(title, now.table));
  };
  data.addEventListener("toggle", fillTable);
  const width = () => (isPrinting() ? PAPER_WIDTH : canvas.clientWidth);
  const tall = () => now.height ?? height;
  const tell = () => {
    if (now.option) canvas.style.height = `${tall()}px`;
    if (now.option) canvas.setAttribute("aria-label", now.words);
    if (words.textContent !== now.words) words.textContent = now.words;
  };

  const redraw = () => {
    now = view();
    tell();
    if (now.image && width() > 0) canvas.replaceChildren(now.image(width()));
    chart?.resize({ width: isPrinting() ? PAPER_WIDTH : "auto", height: tall() });
    if (now.option) chart?.setOption(now.option, { notMerge: true });
    fillTable();
  };
  const svg = () => (now.image ? imageText(now.image(width())) : toSvg(now.option!, canvas.clientWidth, tall()));
  const png = () => (now.image ? rastered(svg()) : Promise.resolve(chart!.getDataURL({ type: "png", pixelRatio: 2 })));
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
        save("PNG", () => void png().then((address) => download(`${id}.png`, address))),
        save("SVG", () => downloadText(`${id}.svg`, "image/svg+xml", svg())),
        save("CSV", () => downloadText(`${id}.csv`, "text/csv", toCsv(now.table))),
      ),
    ),
    canvas,
    ...below,
    words,
    h("figcaption", {}, h("strong", {}, "How to read it. "), prose(reading.join(" "))),
    data,
  );
  tell();
  whenInPage(canvas, () => {
    if (now.option) chart = draw(canvas, now.option);
    else followWidth(canvas, redraw);
    if (!performance.getEntriesByName("first-chart").length) performance.mark("first-chart");
  });
  onPalette(redraw);
  return { element, redraw };
}

/** Draws an image again when its room has another width. */
function followWidth(canvas: HTMLElement, redraw: () => void): void {
  let drawn = 0;
  new ResizeObserver(() => {
    if (canvas.clientWidth === drawn) return;
    drawn = canvas.clientWidth;
    redraw();
  }).observe(canvas);
}

function imageText(image: SVGSVGElement): string {
  return new XMLSerializer().serializeToString(image);
}

/** Converts an SVG text to the address of a PNG of twice the size. */
async function rastered(svg: string): Promise<string> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: image.width * 2, height: image.height * 2 });
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
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
    // A spreadsheet would execute a cell that starts like this.
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
