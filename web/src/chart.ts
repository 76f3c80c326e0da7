// The parts of ECharts that the page uses, and what all charts have in common.

import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TitleComponent,
  TooltipComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";
import type { ComposeOption } from "echarts/core";
import type { BarSeriesOption, CustomSeriesOption, LineSeriesOption, ScatterSeriesOption } from "echarts/charts";
import type {
  DataZoomComponentOption,
  GridComponentOption,
  LegendComponentOption,
  TitleComponentOption,
  TooltipComponentOption,
} from "echarts/components";
import { axisTime } from "./format";
import { isPrinting, palette } from "./theme";

echarts.use([
  BarChart,
  CustomChart,
  LineChart,
  ScatterChart,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TitleComponent,
  TooltipComponent,
  CanvasRenderer,
  SVGRenderer,
]);

export type Option = ComposeOption<
  | BarSeriesOption
  | CustomSeriesOption
  | LineSeriesOption
  | ScatterSeriesOption
  | DataZoomComponentOption
  | GridComponentOption
  | LegendComponentOption
  | TitleComponentOption
  | TooltipComponentOption
>;

/** Colours and letters that all charts share. The pointer's text is drawn, not markup. */
export function base(): Option {
  const { text, faint, line, ground, series } = palette();
  return {
    animation: false,
    color: series,
    backgroundColor: ground,
    textStyle: { color: text, fontFamily: "system-ui, sans-serif" },
    // Paper cannot be leafed through inside a chart.
    legend: { type: isPrinting() ? "plain" : "scroll", top: 0, textStyle: { color: text }, pageTextStyle: { color: faint } },
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: ground,
      borderColor: line,
      textStyle: { color: text },
    },
  };
}

/** Room above a chart for its legend, pixels. */
export function legendRoom(): number {
  return isPrinting() ? 64 : 40;
}

/** What every axis looks like. */
export function axisLook(name: string, gap: number) {
  const { text, faint, line } = palette();
  return {
    name,
    nameLocation: "middle" as const,
    nameGap: gap,
    nameTextStyle: { color: text },
    axisLabel: { color: faint, hideOverlap: true },
    axisLine: { lineStyle: { color: faint } },
    splitLine: { show: true, lineStyle: { color: line } },
  };
}

/** A logarithmic axis of times, whole powers of ten. */
export function timeAxis(name: string, gap: number, smallest: number, largest: number) {
  const look = axisLook(name, gap);
  return {
    ...look,
    type: "log" as const,
    logBase: 10,
    min: 10 ** Math.floor(Math.log10(Math.max(smallest, 1))),
    max: 10 ** Math.ceil(Math.log10(Math.max(largest, 10))),
    axisLabel: { ...look.axisLabel, formatter: (ns: number) => axisTime(ns) },
  };
}

/** A chart that is drawn into `element` and follows its width. */
export function draw(element: HTMLElement, option: Option): echarts.ECharts {
  const chart = echarts.init(element, null, { renderer: "canvas", devicePixelRatio: Math.max(devicePixelRatio, 2) });
  chart.setOption(option);
  new ResizeObserver(() => chart.resize()).observe(element);
  return chart;
}

/** The chart as the text of an SVG file. */
export function toSvg(option: Option, width: number, height: number): string {
  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
  chart.setOption(option);
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
