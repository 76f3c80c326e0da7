// The application whose buffers are replayed: from the catalogue, or set by
// sliders and fields.

import type { Application } from "../data";
import { h, select } from "../dom";
import { time } from "../format";
import { slack, type Buffering } from "../qos/replay";

const MOST_BUFFERS = 32;
/** A slider's ends, ns; a field takes what lies beyond. */
const SHORTEST = 1e4;
const LONGEST = 1e9;
const STEPS = 400;

/** Times on a slider grow by the same factor at each step. */
const onSlider = (ns: number) => Math.round((STEPS * Math.log(Math.max(ns, SHORTEST) / SHORTEST)) / Math.log(LONGEST / SHORTEST));
const offSlider = (step: number) => Math.round(Number((SHORTEST * (LONGEST / SHORTEST) ** (step / STEPS)).toPrecision(3)));

/** A slider with a field beside it, one value in both. */
interface Control {
  element: HTMLElement;
  show: (value: number, text: string) => void;
}

function control(
  id: string,
  label: string,
  unit: string,
  slider: { min: number; max: number; to: (value: number) => number; from: (step: number) => number },
  field: { step: string; to: (value: number) => string; from: (text: string) => number },
  onChange: (value: number) => void,
): Control {
  const range = h("input", {
    type: "range",
    id: `${id}-slider`,
    min: slider.min,
    max: slider.max,
    "aria-label": label,
    oninput: () => onChange(slider.from(Number(range.value))),
  });
  const box = h("input", {
    type: "number",
    id: `${id}-field`,
    min: 0,
    step: field.step,
    "aria-label": `${label}, ${unit || "number"}`,
    onchange: () => onChange(field.from(box.value)),
  });
  return {
    element: h("div", { class: "control" }, h("span", { "aria-hidden": "true" }, label), range, h("span", {}, box, unit && ` ${unit}`)),
    show: (value, text) => {
      range.value = String(slider.to(value));
      range.setAttribute("aria-valuetext", text);
      box.value = field.to(value);
    },
  };
}

/** Calls `changed` with what was set, at most once per frame. */
export function controls(applications: Application[], changed: (now: Buffering) => void): HTMLElement {
  let now: Buffering = { buffers: 2, period: 1, compute: 0 };
  let isDue = false;
  const about = h("p", { class: "source" });
  const error = h("p", { class: "error", role: "alert" });
  const milliseconds = { step: "any", to: (ns: number) => String(ns / 1e6), from: (text: string) => Math.round(Number(text) * 1e6) };
  const times = { min: 0, max: STEPS, to: onSlider, from: offSlider };

  const show = (next: Buffering) => {
    now = next;
    buffers.show(now.buffers, `${now.buffers} buffers`);
    period.show(now.period, time(now.period));
    compute.show(now.compute, time(now.compute));
  };
  const set = (next: Buffering) => {
    const wrong = refused(next);
    error.textContent = wrong ?? "";
    if (wrong !== null) return;
    show(next);
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      changed(now);
    });
  };
  const adopt = (index: number): Buffering => {
    const { buffers, buffer_ns, compute_ns, source } = applications[index]!;
    about.textContent = `Source: ${source}.`;
    const next = { buffers, period: buffer_ns, compute: compute_ns };
    show(next);
    return next;
  };
  const whole = { step: "1", to: String, from: (text: string) => Math.round(Number(text)) };
  const asIs = { min: 2, max: MOST_BUFFERS, to: (value: number) => value, from: (step: number) => step };
  const buffers = control("buffers", "Buffers", "", asIs, whole, (value) => set({ ...now, buffers: value }));
  // Work keeps below the length of a buffer, as the slider moves.
  const period = control("buffer", "Length of a buffer", "ms", times, milliseconds, (value) =>
    set({ ...now, period: value, compute: now.compute < value ? now.compute : Math.floor(value / 4) }),
  );
  const compute = control("compute", "Work for a buffer", "ms", times, milliseconds, (value) => set({ ...now, compute: value }));
  const names = applications.map(({ name }) => name);
  const element = h(
    "div",
    { class: "controls" },
    h("div", { class: "control" }, select("Application", names, 0, (index) => set(adopt(index)))),
    buffers.element,
    period.element,
    compute.element,
    about,
    error,
  );
  adopt(0);
  return element;
}

/** Why these are no buffers, or null. */
function refused(next: Buffering): string | null {
  if (!(next.buffers >= 2 && next.buffers <= 1000)) return "It takes 2 buffers or more to tolerate any latency (1,000 at most here).";
  if (!(next.period > 0)) return "A buffer has a length.";
  if (!(next.compute >= 0 && next.compute < next.period)) return `The work must be shorter than the buffer, ${time(next.period)}.`;
  return slack(next) > 0 ? null : "There is no slack.";
}
