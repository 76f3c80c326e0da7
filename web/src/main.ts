// The page: its sections in order. A section without data is absent.

import "./style.css";
import { readData, type PageData } from "./data";
import { h } from "./dom";
import { followTheme, toggleTheme } from "./theme";
import { buffers } from "./sections/buffers";
import { causes } from "./sections/causes";
import { distributions } from "./sections/distributions";
import { doubts } from "./sections/doubts";
import { forecast } from "./sections/forecast";
import { machine } from "./sections/machine";
import { overTime } from "./sections/overtime";
import { schedulability } from "./sections/schedulability";
import { services } from "./sections/services";
import { stages } from "./sections/stages";
import { verdict } from "./sections/verdict";

const SECTIONS: ((data: PageData) => HTMLElement | null)[] = [
  verdict,
  services,
  causes,
  forecast,
  buffers,
  schedulability,
  distributions,
  stages,
  overTime,
  machine,
  doubts,
];

function header({ report }: PageData, sections: HTMLElement[]): HTMLElement {
  const theme = h("button", { type: "button", class: "theme", onclick: () => void toggleTheme() }, "Light or dark");
  const print = h("button", { type: "button", onclick: () => window.print() }, "Print or PDF");
  return h(
    "header",
    {},
    h(
      "div",
      { class: "bar" },
      h("h1", {}, "How late this machine runs code"),
      h("span", { class: "actions" }, theme, print),
    ),
    h("p", { class: "about" }, `laggard ${report.version}: ${report.recordings.map(({ path }) => path).join(", ")}`),
    h(
      "nav",
      { "aria-label": "Sections" },
      ...sections.map((one) => h("a", { href: `#${one.id}` }, one.querySelector("h2")?.textContent ?? one.id)),
    ),
  );
}

function show(page: HTMLElement): void {
  const data = readData();
  followTheme();
  const sections = SECTIONS.map((make) => make(data)).filter((one) => one !== null);
  document.title = `laggard: ${data.report.recordings.map(({ path }) => path).join(", ")}`;
  page.before(h("a", { class: "skip", href: "#page" }, "Skip to the report"), header(data, sections));
  page.replaceChildren(...sections);
}

const page = document.getElementById("page")!;
try {
  show(page);
} catch (error) {
  page.replaceChildren(h("p", { role: "alert" }, `This report cannot be shown: ${String(error)}`));
  throw error;
}
