// Light and dark colours. They are the colours of Okabe and Ito (2008), which
// all kinds of colour vision can distinguish. Lines also differ in dashes.

export interface Palette {
  text: string;
  faint: string;
  line: string;
  ground: string;
  series: string[];
}

const LIGHT: Palette = {
  text: "#1b1f24",
  faint: "#57606a",
  line: "#d8dee4",
  ground: "#ffffff",
  series: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#2f8ac0", "#5b5b5b", "#8c4a9c"],
};

const DARK: Palette = {
  text: "#e6edf3",
  faint: "#9aa5b1",
  line: "#30363d",
  ground: "#12161c",
  series: ["#56b4e9", "#ff8a3d", "#2fc79a", "#e79fc6", "#f0e442", "#8fb8ff", "#bcbcbc", "#c79be0"],
};

/** How many colours there are; the style sheet has them as `series-0` and so on. */
export const SERIES = LIGHT.series.length;

/** Dashes of lines, in the order of the colours. */
export const DASHES = ["solid", "dashed", "dotted"] as const;

type Choice = "light" | "dark";

const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners: (() => void)[] = [];
let chosen: Choice | null = null;
let printing = false;

function current(): Choice {
  if (printing) return "light";
  return chosen ?? (dark.matches ? "dark" : "light");
}

/** Whether the page is being put on paper. */
export function isPrinting(): boolean {
  return printing;
}

export function palette(): Palette {
  return current() === "dark" ? DARK : LIGHT;
}

/** Shapes of marks, in the order of the colours. */
export const SHAPES = ["circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect", "circle"] as const;

/** The nth colour; beyond the last, all are grey. */
export function seriesColor(nth: number): string {
  const { series, faint } = palette();
  return series[nth] ?? faint;
}

/** Calls `redraw` whenever the colours change. */
export function onPalette(redraw: () => void): void {
  listeners.push(redraw);
}

function apply(): void {
  document.documentElement.dataset.theme = current();
  for (const redraw of listeners) redraw();
}

/** Follows the system, the reader's choice, and paper, which is light. */
export function followTheme(): void {
  dark.addEventListener("change", apply);
  addEventListener("beforeprint", () => {
    printing = true;
    apply();
  });
  addEventListener("afterprint", () => {
    printing = false;
    apply();
  });
  apply();
}

export function toggleTheme(): Choice {
  chosen = current() === "dark" ? "light" : "dark";
  apply();
  return chosen;
}
