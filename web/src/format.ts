// Times and counts for the eye, with the same digits as the program's tables.

const UNITS: [string, number][] = [
  ["ns", 1],
  ["us", 1e3],
  ["ms", 1e6],
  ["s", 1e9],
];

/** `13.4 us`: three digits and the unit that suits. */
export function time(ns: number): string {
  const [unit, factor] = UNITS.find(([, factor]) => ns < factor * 1e3) ?? (["s", 1e9] as const);
  const value = ns / factor;
  if (unit === "ns") return `${value.toFixed(0)} ns`;
  if (unit !== "s" && value >= 100) return `${value.toFixed(0)} ${unit}`;
  return `${value.toFixed(value < 10 ? 2 : 1)} ${unit}`;
}

/** `1500us`: whole, as options of the program take it. */
export function exact(ns: number): string {
  const [unit, factor] = UNITS.findLast(([, factor]) => ns >= factor && ns % factor === 0) ?? UNITS[0]!;
  return `${ns / factor}${unit}`;
}

/** Like `time`, or a dash for a missing value. */
export function timeOrDash(ns: number | null | undefined): string {
  return ns === null || ns === undefined ? "-" : time(ns);
}

/** `text`, as a lower limit if it is one. */
export function atLeast(isAtLeast: boolean | undefined, text: string): string {
  return isAtLeast ? `>= ${text}` : text;
}

/** Formats a quantile: `153 us`, `>= 2.10 s` for a lower bound, `15.0 ms to
 * 17.0 ms` for a range, or a dash. */
export function quantile({ ns, is_at_least, low_ns }: { ns?: number; is_at_least?: boolean; low_ns?: number }): string {
  if (ns === undefined) return "-";
  const low = low_ns === undefined ? null : time(low_ns);
  return low !== null && low !== time(ns) ? `${low} to ${time(ns)}` : atLeast(is_at_least, time(ns));
}

/** The label of an axis: `10 us`, without digits after the point. */
export function axisTime(ns: number): string {
  const [unit, factor] = UNITS.findLast(([, factor]) => ns >= factor) ?? (["ns", 1] as const);
  return `${Number((ns / factor).toPrecision(3))} ${unit}`;
}

/** `1,234,567`. */
export function count(number: number): string {
  return number.toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A length of time for people: `30 s`, `2 min 40 s`, `2 h 5 min`, `31.0 ms`. */
export function span(ns: number): string {
  const seconds = ns / 1e9;
  // No time that has passed is 0 s long.
  if (seconds > 0 && seconds < 0.1) return time(ns);
  if (seconds < 120) return `${Number(seconds.toFixed(1))} s`;
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const rest = minutes < 10 ? Math.floor(seconds % 60) : 0;
  return (
    (hours > 0 ? `${hours} h ` : "") +
    `${minutes % 60} min` +
    (rest > 0 ? ` ${rest} s` : "")
  );
}

/** A mean time of any length: `850 us`, `12 min`, `3.2 days`. */
export function meanTime(ns: number): string {
  const seconds = ns / 1e9;
  if (!Number.isFinite(seconds)) return "no end";
  if (seconds < 60) return time(ns);
  const [value, unit] =
    seconds < 3_600
      ? [seconds / 60, "min"]
      : seconds < 172_800
        ? [seconds / 3_600, "h"]
        : seconds < 86_400 * 730
          ? [seconds / 86_400, "days"]
          : [seconds / (86_400 * 365.25), "years"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

/** Units of a mean time, and the lower limit of each. */
const ROUGH: [number, string, number][] = [
  [1, "ns", 1],
  [1e3, "us", 1],
  [1e6, "ms", 1],
  [1e9, "s", 1],
  [60e9, "min", 1],
  [3.6e12, "h", 1],
  [8.64e13, "days", 2],
  [3.15576e16, "years", (730 * 8.64e13) / 3.15576e16],
];

/** A mean time with no more than `digits` digits that count: `30 s`, `1.8 s`. */
export function roughTime(ns: number, digits: number): string {
  if (!Number.isFinite(ns) || ns <= 0) return meanTime(ns);
  const rounded = (value: number) => Number(value.toPrecision(digits));
  const [factor, unit] = ROUGH.findLast(([factor, , from]) => (from === 1 ? rounded(ns / factor) : ns / factor) >= from) ?? ROUGH[0]!;
  const value = rounded(ns / factor);
  return `${value.toFixed(Math.max(digits - 1 - Math.floor(Math.log10(value)), 0))} ${unit}`;
}

const MINUTE = 60e9;
const DAY = 24 * 60 * MINUTE;

/** Labels on the axis of a mean time. */
export const MEAN_TIMES: [number, string][] = [
  [1e5, "100 us"],
  [1e6, "1 ms"],
  [1e7, "10 ms"],
  [1e8, "100 ms"],
  [1e9, "1 s"],
  [1e10, "10 s"],
  [MINUTE, "1 min"],
  [10 * MINUTE, "10 min"],
  [60 * MINUTE, "1 h"],
  [600 * MINUTE, "10 h"],
  [7 * DAY, "1 week"],
  [70 * DAY, "10 weeks"],
  [730.5 * DAY, "2 years"],
  [7305 * DAY, "20 years"],
];

const BYTES: [number, string][] = [
  [1, "B"],
  [1e3, "kB"],
  [1e6, "MB"],
  [1e9, "GB"],
];

/** Time since the start of the recording: `12.345 s`. */
export function instant(ns: number): string {
  return `${(ns / 1e9).toFixed(3)} s`;
}

/** `99.99` for 0.9999. */
export function percent(share: number): string {
  return Number((share * 100).toFixed(4)).toString();
}

/** `median` or `p99.9`. */
export function quantileName(q: number): string {
  return q < 0.6 ? "median" : `p${percent(q)}`;
}

/** So much work in a second: `2.50 GB/s`, `1,234 frames a second`. */
export function perSecond(rate: number, unit: string): string {
  if (unit !== "bytes") return `${rate < 10 ? rate.toFixed(2) : count(Math.round(rate))} ${unit} a second`;
  const [factor, name] = BYTES.find(([factor]) => rate / factor < 999.5) ?? ([1e12, "TB"] as const);
  const value = rate / factor;
  const digits = factor === 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${name}/s`;
}

export function bytes(number: number): string {
  return number >= 1e9 ? `${(number / 1e9).toFixed(1)} GB` : `${(number / 1e6).toFixed(1)} MB`;
}
