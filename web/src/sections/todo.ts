// What the recording says in plain words, and what to do first.

import type { Charts, PageData, Recording } from "../data";
import { h, prose, section } from "../dom";

const FIRST = 3;
const WEIGHTS = { spoils: "Spoils the result", matters: "Matters", note: "Note" } as const;

export function verdict({ report, charts }: PageData): HTMLElement {
  const several = report.recordings.length > 1;
  return section(
    "verdict",
    "Verdict",
    ...report.recordings.map((recording, index) =>
      h(
        "article",
        {},
        several && h("h3", {}, `[${index + 1}] ${recording.path}`),
        trust(recording),
        ...recording.sentences.map((sentence) => h("p", { class: "sentence" }, prose(sentence))),
        toDo(charts[index]!),
      ),
    ),
  );
}

function trust({ trust, backend, losses }: Recording): HTMLElement {
  if (trust.verdict === "none") {
    return h("p", { class: "trust bad" }, h("strong", {}, "Not trustworthy. "), trust.why.join("; ") + ".");
  }
  if (backend === "fake") {
    return h("p", { class: "trust bad" }, h("strong", {}, "Not a measurement. "), "A script was played.");
  }
  return h("p", { class: "trust good" }, h("strong", {}, "Trustworthy. "), lost(losses));
}

function lost(losses: Recording["losses"]): string {
  return Object.values(losses).every((count) => count === 0)
    ? "Nothing was lost."
    : "Little was lost; where that leaves a quantile open, both ends or a lower limit are shown.";
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
    h("h3", {}, rest.length > 0 ? "The three most important things to do" : "What to do"),
    h("ol", { class: "advice" }, ...advice.slice(0, FIRST).map(item)),
    rest.length > 0 &&
      h("details", {}, h("summary", {}, `${rest.length} more`), h("ol", { class: "advice", start: FIRST + 1 }, ...rest.map(item))),
  );
}
