// Flame graph that can be navigated with the keyboard: a tree whose widths are
// times. Each step draws its image again.

import type { FlameNode } from "./data";
import { svg } from "./dom";
import { percent, time } from "./format";
import { palette, seriesColor } from "./theme";

const ROW = 22;
const FONT = 12;
/** A letter's width, pixels, of the font above. */
const LETTER = 7;
/** Narrower boxes are not drawn. */
const NARROWEST = 3;

interface Box {
  node: FlameNode;
  parent: Box | null;
  depth: number;
  /** Share of the shown width, 0 to 1. */
  left: number;
  width: number;
  /** The number of its class, which gives its colour. */
  color: number;
}

export interface Flame {
  image: (width: number) => SVGSVGElement;
  /** Position of the reader, for the words below. */
  words: () => string;
}

/** `classes` are the names of the first row, in the order of their colours. */
export function flame(root: FlameNode, classes: string[], changed: () => void): Flame {
  let shown = root;
  let here = root;
  const above = parents(root);
  const go = (to: FlameNode | undefined, keep = true) => {
    if (!to) return;
    here = to;
    if (!keep || !isWithin(here, shown, above)) shown = here;
    changed();
    // The image is new, so what had the focus is gone; the next key comes soon.
    document.querySelector<SVGElement>('#flame [tabindex="0"]')?.focus({ preventScroll: true });
  };
  const zoom = (to: FlameNode) => {
    here = to;
    go(to, false);
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => go(here.within?.[0]),
    ArrowUp: () => go(above.get(here)),
    ArrowRight: () => go(beside(here, 1)),
    ArrowLeft: () => go(beside(here, -1)),
    Enter: () => zoom(here),
    " ": () => zoom(here),
    Escape: () => {
      here = root;
      go(root, false);
    },
  };
  const beside = (node: FlameNode, step: number) => {
    const all = above.get(node)?.within ?? [];
    return all[all.indexOf(node) + step];
  };
  const image = (width: number) => {
    const boxes = layout(shown, root, above, classes).filter((box) => box.width * width >= NARROWEST);
    const rows = Math.max(...boxes.map(({ depth }) => depth)) + 1;
    const { ground } = palette();
    const element = svg("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height: rows * ROW,
      viewBox: `0 0 ${width} ${rows * ROW}`,
      role: "tree",
      "aria-label": "Flame graph; arrow keys walk, Enter widens, Escape shows all",
    });
    element.append(svg("rect", { width, height: rows * ROW, fill: ground }));
    const isHere = boxes.some(({ node }) => node === here) ? here : shown;
    for (const box of boxes) element.append(drawn(box, width, root, box.node === isHere, () => zoom(box.node)));
    element.addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      action();
    });
    return element;
  };
  const words = () => {
    const chain: string[] = [];
    for (let node: FlameNode | undefined = here; node && node !== root; node = above.get(node)) chain.unshift(node.name);
    const place = chain.length > 0 ? chain.join(" > ") : root.name;
    return `${place}: ${time(here.ns)}, ${share(here, root)} of the time of all episodes.`;
  };
  return { image, words };
}

const share = (node: FlameNode, root: FlameNode) => `${percent(Math.round((1000 * node.ns) / Math.max(root.ns, 1)) / 1000)} %`;

function parents(root: FlameNode): Map<FlameNode, FlameNode> {
  const above = new Map<FlameNode, FlameNode>();
  const walk = (node: FlameNode) => {
    for (const child of node.within ?? []) {
      above.set(child, node);
      walk(child);
    }
  };
  walk(root);
  return above;
}

function isWithin(node: FlameNode, outer: FlameNode, above: Map<FlameNode, FlameNode>): boolean {
  for (let one: FlameNode | undefined = node; one; one = above.get(one)) if (one === outer) return true;
  return false;
}

/** Position of each box: `shown` has the full width, with its ancestors above. */
function layout(shown: FlameNode, root: FlameNode, above: Map<FlameNode, FlameNode>, classes: string[]): Box[] {
  const way: FlameNode[] = [];
  for (let node: FlameNode | undefined = shown; node; node = above.get(node)) way.unshift(node);
  const boxes: Box[] = [];
  const colorOf = (node: FlameNode, parent: Box | null) => (above.get(node) === root ? classes.indexOf(node.name) : (parent?.color ?? -1));
  const add = (node: FlameNode, parent: Box | null, left: number, width: number): Box => {
    const box = { node, parent, depth: parent ? parent.depth + 1 : 0, left, width, color: colorOf(node, parent) };
    boxes.push(box);
    return box;
  };
  let last: Box | null = null;
  for (const node of way) last = add(node, last, 0, 1);
  const spread = (box: Box) => {
    let left = box.left;
    for (const child of box.node.within ?? []) {
      const width = (box.width * child.ns) / Math.max(box.node.ns, 1);
      spread(add(child, box, left, width));
      left += width;
    }
  };
  spread(last!);
  return boxes;
}

function drawn({ node, depth, left, width, color }: Box, total: number, root: FlameNode, isHere: boolean, open: () => void): SVGGElement {
  const { text, ground, line } = palette();
  const pixels = width * total - 1;
  const letters = Math.floor((pixels - 8) / LETTER);
  const name = node.name.length <= letters ? node.name : letters > 3 ? `${node.name.slice(0, letters - 1)}…` : "";
  const title = svg("title");
  title.textContent = `${node.name}: ${time(node.ns)}, ${share(node, root)}`;
  const fill = color < 0 ? line : seriesColor(color);
  const box = svg("rect", {
    x: left * total,
    y: depth * ROW,
    width: Math.max(pixels, 0.5),
    height: ROW - 1,
    rx: 2,
    fill,
    // Deeper calls are paler, so that rows differ; text stays readable.
    "fill-opacity": color < 0 ? 1 : depth <= 1 ? 0.45 : depth === 2 ? 0.34 : 0.2 + 0.08 * (depth % 2),
    stroke: isHere ? text : ground,
    "stroke-width": isHere ? 2 : 0,
  });
  const label = svg("text", { x: left * total + 4, y: depth * ROW + 15, "font-size": FONT, "font-family": "system-ui, sans-serif", fill: text, "pointer-events": "none" });
  label.textContent = name;
  const group = svg(
    "g",
    {
      role: "treeitem",
      tabindex: isHere ? 0 : -1,
      "aria-level": depth + 1,
      "aria-selected": String(isHere),
      "aria-label": title.textContent,
      class: "flame-box",
    },
    title,
    box,
    label,
  );
  group.addEventListener("click", open);
  return group;
}
