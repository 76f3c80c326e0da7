// What to do, the most important first.

import type { Charts, PageData } from "../data";
import { h, prose, section } from "../dom";

const FIRST = 3;
const WEIGHTS = { spoils: "Spoils the result", matters: "Matters", note: "Note" } as const;

export function todo({ report, charts }: PageData): HTMLElement {
  const several = report.recordings.length > 1;
  return section(
    "todo",
    "What to do",
    ...charts.map((one, index) =>
      h("article", {}, several && h("h3", {}, `[${index + 1}] ${report.recordings[index]!.path}`), toDo(one)),
    ),
  );
}

function toDo({ advice }: Charts): HTMLElement {
  if (advice.length === 0) {
    return h("p", {}, "Nothing was found that casts doubt on these figures.");
  }
  const item = ({ severity, why, what }: Charts["advice"][number]) =>
    h("li", {}, h("span", { class: `weight ${severity}` }, WEIGHTS[severity]), " ", prose(why), " ", h("strong", {}, prose(what)));
  const rest = advice.slice(FIRST);
  return h(
    "div",
    {},
    h("ol", { class: "advice" }, ...advice.slice(0, FIRST).map(item)),
    rest.length > 0 &&
      h("details", {}, h("summary", {}, `${rest.length} more`), h("ol", { class: "advice", start: FIRST + 1 }, ...rest.map(item))),
  );
}
