// The page: its sections in order. A section without data is absent.

import "./style.css";
import { readData, type PageData } from "./data";
import { h } from "./dom";
import { followTheme, toggleTheme } from "./theme";
import { buffers } from "./sections/buffers";
import { causes } from "./sections/causes";
import { contexts } from "./sections/contexts";
import { doubts } from "./sections/doubts";
import { forecast } from "./sections/forecast";
import { handlers } from "./sections/handlers";
import { machine } from "./sections/machine";
import { overview } from "./sections/overview";
import { overTime } from "./sections/overtime";
import { schedulability } from "./sections/schedulability";
import { services } from "./sections/services";
import { stages } from "./sections/stages";
import { todo } from "./sections/todo";

/** Sections with their names in the contents. */
const SECTIONS: [string, (data: PageData) => HTMLElement | null][] = [
  ["Summary", overview],
  ["Causes", causes],
  ["Handlers", handlers],
  ["What to do", todo],
  ["Forecast", forecast],
  ["Buffers", buffers],
  ["Tasks", schedulability],
  ["Services", services],
  ["Contexts", contexts],
  ["Stages", stages],
  ["Over time", overTime],
  ["Machine", machine],
  ["Losses and overhead", doubts],
];

function header({ report }: PageData): HTMLElement {
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
  );
}

/** The contents, which stay in sight and mark the section that is read. */
function contents(sections: [string, HTMLElement][]): HTMLElement {
  const links = sections.map(([name, { id }]) => h("a", { href: `#${id}` }, name));
  const nav = h("nav", { "aria-label": "Sections" }, h("div", {}, ...links));
  const mark = () => {
    // The last one whose heading has come up to the contents.
    const top = nav.getBoundingClientRect().bottom + 40;
    const read = Math.max(sections.findLastIndex(([, element]) => element.getBoundingClientRect().top <= top), 0);
    const here = links[read]!;
    if (here.hasAttribute("aria-current")) return;
    for (const link of links) link.removeAttribute("aria-current");
    here.setAttribute("aria-current", "true");
    nav.scrollTo({ left: here.offsetLeft - nav.clientWidth / 2 });
  };
  addEventListener("scroll", mark, { passive: true });
  queueMicrotask(mark);
  return nav;
}

function show(page: HTMLElement): void {
  const data = readData();
  followTheme();
  const sections = SECTIONS.flatMap(([name, make]): [string, HTMLElement][] => {
    const made = make(data);
    return made === null ? [] : [[name, made]];
  });
  document.title = `laggard: ${data.report.recordings.map(({ path }) => path).join(", ")}`;
  page.before(h("a", { class: "skip", href: "#page" }, "Skip to the report"), header(data), contents(sections));
  page.replaceChildren(...sections.map(([, element]) => element));
}

const page = document.getElementById("page")!;
try {
  show(page);
} catch (error) {
  page.replaceChildren(h("p", { role: "alert" }, `This report cannot be shown: ${String(error)}`));
  throw error;
}
