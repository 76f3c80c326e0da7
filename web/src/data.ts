// The data of the page. Its types are generated from those in Rust; here they
// have the names of the page.

import type { Charts, PageData, Route, Service } from "./types";

export type {
  Application,
  CausesView as Causes,
  Charts,
  Context,
  ContextRow,
  ContextsReport as Contexts,
  CourseView as Course,
  EpisodeView as Episode,
  ExampleView as Example,
  Figures,
  Fit,
  FlameNode,
  HistogramView as Histogram,
  Host,
  LoadRun as Load,
  OwnCost as Cost,
  PageData,
  QosPage,
  RecordingReport as Recording,
  Report,
  ServiceRow,
  Share as Quantile,
  SliceView as Slice,
  StageRow,
  Waiting,
} from "./types";

/** What names a row. */
interface Key {
  service: Service;
  route: Route;
}

/** The names of the data's services by the ways they are reached. */
const names = new Map<string, string>();

const keyOf = ({ service, route }: Key) => `${service} ${route}`;

/** The name of a service reached by a route, as the program has it. */
export function lineName(line: Key): string {
  return names.get(keyOf(line)) ?? line.service;
}

/** Which of these, each of one of the recordings, stands for its recording; the first where none does. */
export function foremostOf(charts: Charts[], all: { name: string; recording: number }[]): number {
  const index = all.findIndex(({ name, recording }) => name === charts[recording]?.foremost);
  return Math.max(index, 0);
}

/** Lower edge of a bucket, ns. Its values are later than this. */
export function bucketBegin(bucket: number): number {
  return bucket === 0 ? 0 : 2 ** ((bucket - 1) / 64);
}

/** Reads the data that the program put into the page. */
export function readData(): PageData {
  const text = document.getElementById("laggard-data")?.textContent ?? "";
  if (text.trim() === "") throw new Error("the report lacks its data; write it again with `laggard report`");
  const data = JSON.parse(text) as PageData;
  for (const line of data.charts.flatMap(({ lines }) => lines)) names.set(keyOf(line), line.name);
  return data;
}
