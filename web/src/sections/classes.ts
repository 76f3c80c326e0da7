// Classes of causes: one colour and shape each, the same in every figure.

import type { PageData } from "../data";
import { SHAPES, seriesColor } from "../theme";

export interface Class {
  class: string;
  words: string;
  color: () => string;
  shape: string;
}

/** Classes of all recordings, longest total time first. */
export function classesOf({ charts }: PageData): Class[] {
  const totals = new Map<string, { words: string; ns: number }>();
  for (const one of charts.flatMap(({ causes }) => causes?.classes ?? [])) {
    const known = totals.get(one.class) ?? { words: one.words, ns: 0 };
    known.ns += one.total_ns;
    totals.set(one.class, known);
  }
  return [...totals]
    .sort(([, a], [, b]) => b.ns - a.ns)
    .map(([name, { words }], nth) => ({
      class: name,
      words,
      color: () => seriesColor(nth),
      shape: SHAPES[nth % SHAPES.length]!,
    }));
}
