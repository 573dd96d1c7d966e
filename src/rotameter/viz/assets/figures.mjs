// What the figures share: names, numbers, axes.

// Plotly reads tags and entities in text: names stay what they are.
export function safe(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

export function shorten(text, limit) {
  const all = [...String(text)];
  if (all.length <= limit) return all.join("");
  const tail = Math.max(1, Math.floor(limit / 3));
  return `${all.slice(0, limit - 1 - tail).join("")}…${all.slice(-tail).join("")}`;
}

// The end of a name that is made of parts tells most: folders and scopes go first, then the middle.
export function brief(label, limit, kind = "tasks") {
  let name = label.replace(/^.*\/(?=[^/]{2})/, "");
  const scope = /^[A-Za-z_]\w*[:.]+(?=[A-Za-z_])/;
  // Scopes of words, not a file's name with its endings.
  const scoped = /^(?:[A-Za-z_]\w*[:.]+)+(?:[A-Za-z_]\w{4,}|[A-Z_]{2}\w*)$/.test(name);
  while (kind === "tasks" && scoped && [...name].length > limit && scope.test(name)) name = name.replace(scope, "");
  return shorten(name, limit);
}

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
  const value = parseInt(hex.slice(1), 16);
  return `rgba(${value >> 16},${(value >> 8) & 255},${value & 255},${alpha})`;
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
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 12.5 }, traceorder: "normal", itemclick: false, itemdoubleclick: false },
    dragmode: false,
    ...more,
  };
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
export function rowAxis(theme, labels) {
  return axis(theme, {
    tickmode: "array",
    tickvals: labels.map((_, i) => i),
    ticktext: labels.map((label) => safe(brief(label, 34))),
    tickfont: { size: 12, color: theme.ink },
    range: [labels.length - 0.5, -0.5],
    showgrid: false,
    zeroline: false,
  });
}
