// Measurement and machine.

import type { PageData } from "../data";
import { definitions, h, section } from "../dom";
import { facts } from "./facts";

export function machine({ report: { recordings }, charts }: PageData): HTMLElement {
  const several = recordings.length > 1;
  return section(
    "machine",
    "The recording and its machine",
    h(
      "div",
      { class: "columns" },
      ...recordings.map((recording, index) =>
        h(
          "article",
          {},
          h("h3", {}, several ? `[${index + 1}] ${recording.path}` : recording.path),
          definitions([["began", recording.started], ...facts(recording, charts[index]!)]),
        ),
      ),
    ),
  );
}
