// What the figures share: numbers, axes, legends.
import { channels } from "./lod.mjs";
import { distinct, safe } from "./names.mjs";

export function sizeText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${bytes < 0 ? "-" : ""}${value.toFixed(digits)} ${units[unit]}`;
}

export function tickText(bytes) {
  return sizeText(bytes).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ");
}

export function byteTicks(least, most, log) {
  if (log) {
    const powers = [];
    for (let p = Math.floor(Math.log10(least)); p <= Math.ceil(Math.log10(most)); p += 1) powers.push(p);
    const step = Math.ceil(powers.length / 8);
    const shown = powers.filter((_, i) => i % step === 0);
    return {
      tickmode: "array",
      tickvals: shown.map((p) => 10 ** p),
      ticktext: shown.map((p) => tickText(10 ** p)),
      range: [Math.log10(least) - 0.1, Math.log10(most) + 0.1],
    };
  }
  const raw = most / 6;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const values = [];
  for (let k = 0; k * step <= most * 1.05; k += 1) values.push(k * step);
  return { tickmode: "array", tickvals: values, ticktext: values.map(tickText), range: [0, most * 1.06] };
}

export function percent(ratio) {
  const value = ratio * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

export function number(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: value < 1000 ? 3 : 15, maximumFractionDigits: 2 });
}

export function fade(hex, alpha) {
  return `rgba(${channels(hex).join(",")},${alpha})`;
}

export function timeUnit(seconds) {
  if (seconds >= 2 * 86400) return [86400, "days"];
  if (seconds >= 3 * 3600) return [3600, "hours"];
  if (seconds >= 300) return [60, "minutes"];
  return seconds >= 0.5 ? [1, "seconds"] : [1e-3, "milliseconds"];
}

export function base(theme, height, more = {}) {
  return {
    height,
    margin: { l: 8, r: 18, t: 10, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: theme.font, size: 12.5, color: theme.ink },
    hoverlabel: { bgcolor: theme.ink, bordercolor: theme.ink, font: { color: theme.bg, size: 12.5 }, align: "left" },
    legend: { orientation: "h", xref: "container", yref: "container", x: 0, y: 1, maxheight: 2000, yanchor: "top", font: { size: 12.5 }, traceorder: "normal", itemclick: false, itemdoubleclick: false },
    dragmode: false,
    ...more,
  };
}

// Names of a legend as they fit a width, and the height that they take: plotly sets them in columns
// as wide as the widest, where one row does not hold them.
export function legendOf(names, width) {
  const room = Math.max(Math.floor((width - 66) / 6.8), 12);
  const texts = names.map((name) => {
    const lines = [""];
    for (const word of name.split(" ")) {
      const line = lines[lines.length - 1];
      if (line && line.length + 1 + word.length > room) lines.push(word);
      else lines[lines.length - 1] = line ? `${line} ${word}` : word;
    }
    return lines;
  });
  const wide = texts.map((lines) => Math.max(...lines.map((line) => line.length)) * 6.8 + 48);
  const fits = wide.reduce((sum, one) => sum + one, 0) <= width - 10;
  const each = fits ? texts.length : Math.max(1, Math.floor((width - 10) / Math.max(...wide, 1)));
  let height = 0;
  for (let i = 0; i < texts.length; i += Math.max(each, 1)) {
    height += 3 + 18 * Math.max(...texts.slice(i, i + each).map((lines) => lines.length));
  }
  return { names: texts.map((lines) => lines.join("<br>")), height };
}

export function axis(theme, more = {}) {
  return {
    gridcolor: theme.line,
    zerolinecolor: theme["strong-line"],
    linecolor: theme["strong-line"],
    tickfont: { size: 12, color: theme.muted },
    automargin: true,
    fixedrange: true,
    ...more,
  };
}

// Rows from top to bottom, told apart by number, since two may have the same name.
export function rowAxis(theme, labels, width = 1200) {
  const limit = Math.max(Math.min(Math.floor(width / 16), 34), 12);
  const short = distinct(labels.map((label) => ({ label, limit, kind: "tasks" })));
  return axis(theme, {
    tickmode: "array",
    tickvals: labels.map((_, i) => i),
    ticktext: short.map(safe),
    tickfont: { size: 12, color: theme.ink },
    range: [labels.length - 0.5, -0.5],
    showgrid: false,
    zeroline: false,
  });
}
