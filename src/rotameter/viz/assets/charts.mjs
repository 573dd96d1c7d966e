// Figures for plotly.js from the facts of the page: pure functions, nothing is drawn here.
import { axis, base, byteTicks, fade, legendOf, number, percent, rowAxis, sizeText, tickText, timeUnit } from "./figures.mjs";
import { spell } from "./lod.mjs";
import { safe, shorten } from "./names.mjs";
import { flowFigure } from "./sankey.mjs";

const PATH_COLOURS = {
  compute: "g0",
  read: "g2",
  write: "g5",
  transfer: "g3",
  spill: "g4",
  queue: "g1",
  retry: "failed",
  wait_client: "i1",
  other: "i2",
};
const PART_STYLES = {
  useful: ["g2", ""],
  oom_attempts: ["failed", ""],
  failed_attempts: ["failed", "/"],
  worker_lost_attempts: ["failed", "x"],
  unfinished_attempts: ["failed", "."],
  recomputed: ["g4", ""],
  transfer: ["g3", ""],
  disk: ["g0", ""],
  paused: ["g1", ""],
  idle_before_work: ["i1", "/"],
  idle: ["i1", ""],
  idle_after_work: ["i1", "\\"],
  unused: ["g5", ""],
  over_requested: ["g5", "/"],
  unmeasured: ["i2", "."],
};
const ROWS = 24;

function pathRows(path) {
  const rows = [];
  for (const part of path.parts) {
    const last = rows[rows.length - 1];
    if (!last || last.group !== part.group) rows.push({ group: part.group, parts: [part] });
    else last.parts.push(part);
  }
  if (rows.length <= ROWS) return rows;
  const rest = rows.splice(ROWS - 1).flatMap((row) => row.parts);
  rows.push({ group: null, parts: rest });
  return rows;
}

// Each row begins where the one above ended; the last one ends at the makespan.
export function pathFigure(path, theme, width = 1200) {
  const rows = pathRows(path);
  const [unit, name] = timeUnit(path.makespan_s);
  const legend = legendOf(path.kinds.map((kind) => `${kind.words} ${percent(kind.ratio)}`), width);
  const traces = new Map(
    path.kinds.map((kind, i) => [
      kind.kind,
      {
        type: "bar",
        orientation: "h",
        name: legend.names[i],
        x: [],
        y: [],
        base: [],
        width: 0.7,
        hovertext: [],
        hoverinfo: "text",
        marker: { color: theme[PATH_COLOURS[kind.kind] || "i2"], line: { width: 0.5, color: theme["strong-line"] } },
        words: kind.words,
      },
    ]),
  );
  let at = 0;
  rows.forEach((row, index) => {
    for (const part of row.parts) {
      const trace = traces.get(part.kind);
      trace.x.push(part.seconds / unit);
      trace.y.push(index);
      trace.base.push(at / unit);
      const who = part.group === null ? "groups below 1 %, and nobody" : safe(shorten(part.group, 60));
      trace.hovertext.push(
        `${who}: ${trace.words}<br><b>${spell(part.seconds)}</b>, ${percent(part.seconds / path.makespan_s)} of the run`,
      );
      at += part.seconds;
    }
  });
  const labels = rows.map((row) => (row.group === null ? "other groups, nobody" : row.group));
  const layout = base(theme, 25 * rows.length + 66 + legend.height, {
    barmode: "overlay",
    margin: { l: 8, r: 18, t: 14 + legend.height, b: 44 },
    xaxis: axis(theme, { range: [0, (path.makespan_s / unit) * 1.004], title: { text: name, font: { size: 12 } } }),
    yaxis: rowAxis(theme, labels, width),
    showlegend: true,
  });
  return { data: [...traces.values()].map(({ words, ...trace }) => trace), layout };
}

export function memoryFigure(memory, theme, width = 1200) {
  const groups = memory.groups.filter((g) => g.peak_bytes && g.peak_bytes.max > 0).slice(0, ROWS);
  const at = (name) => groups.map((g) => g.peak_bytes[name]);
  const box = {
    type: "box",
    orientation: "h",
    name: "peak: from least to most, the box holds the middle half",
    y: groups.map((_, i) => i),
    lowerfence: at("min"),
    q1: at("q25"),
    median: at("median"),
    q3: at("q75"),
    upperfence: at("max"),
    fillcolor: fade(theme.g0, 0.35),
    line: { color: theme.dark ? theme.g3 : theme.g0, width: 1.4 },
    width: 0.5,
    hoverinfo: "skip",
  };
  const asked = groups.flatMap((g, i) => (g.requested_bytes ? [[g, i]] : []));
  const data = [box];
  if (asked.length) {
    const x = [];
    const y = [];
    for (const [g, i] of asked) {
      // A line across the row; where requests differ, from the least to the most.
      x.push(g.requested_bytes.min, g.requested_bytes.min, null);
      y.push(i - 0.38, i + 0.38, null);
      if (g.requested_bytes.max > g.requested_bytes.min) {
        x.push(g.requested_bytes.min, g.requested_bytes.max, null, g.requested_bytes.max, g.requested_bytes.max, null);
        y.push(i, i, null, i - 0.38, i + 0.38, null);
      }
    }
    data.push({
      type: "scatter",
      mode: "lines",
      name: memory.granted ? "granted" : "requested",
      x,
      y,
      line: { color: theme.failed, width: 2.5 },
      hoverinfo: "skip",
    });
  }
  const mark = memory.groups.length ? groups.map((g) => (g.lower_bounds && g.known === g.lower_bounds ? "≥ " : "")) : [];
  data.push({
    type: "scatter",
    mode: "markers",
    x: at("median"),
    y: groups.map((_, i) => i),
    marker: { size: 22, color: "rgba(0,0,0,0)" },
    showlegend: false,
    hoverinfo: "text",
    hovertext: groups.map((g, i) => {
      const p = g.peak_bytes;
      const lines = [
        `<b>${g.group === null ? "no group" : safe(shorten(g.group, 60))}</b>`,
        `peak ${mark[i]}${sizeText(p.min)} to ${sizeText(p.max)}, median ${sizeText(p.median)} (${g.known.toLocaleString("en")} attempts)`,
      ];
      const r = g.requested_bytes;
      if (r) lines.push(`${memory.granted ? "granted" : "requested"} ${r.min === r.max ? sizeText(r.max) : `${sizeText(r.min)} to ${sizeText(r.max)}`}`);
      if (g.used_ratio !== null) lines.push(`half use less than ${percent(g.used_ratio)} of it`);
      if (g.advised_bytes) lines.push(`ask for ${sizeText(g.advised_bytes)}`);
      return lines.join("<br>");
    }),
  });
  const advised = groups.flatMap((g, i) => (g.advised_bytes ? [[g.advised_bytes, i]] : []));
  if (advised.length) {
    data.push({
      type: "scatter",
      mode: "lines",
      name: "to ask for (see Sizing)",
      x: advised.flatMap(([bytes]) => [bytes, bytes, null]),
      y: advised.flatMap(([, i]) => [i - 0.38, i + 0.38, null]),
      line: { color: theme.ink, width: 2.5, dash: "dot" },
      hoverinfo: "skip",
    });
  }
  const values = groups.flatMap((g) => [g.peak_bytes.median, g.peak_bytes.max, g.requested_bytes ? g.requested_bytes.max : 0, g.advised_bytes || 0]).filter((v) => v > 0);
  const most = Math.max(...values, 1);
  const log = most / Math.max(Math.min(...values), 1) > 200;
  const least = Math.max(Math.min(...values, ...groups.map((g) => g.peak_bytes.min).filter((v) => v > 0)), 1);
  const named = data.filter((trace) => trace.name);
  const legend = legendOf(named.map((trace) => trace.name), width);
  named.forEach((trace, i) => { trace.name = legend.names[i]; });
  const layout = base(theme, 28 * groups.length + 76 + legend.height, {
    margin: { l: 8, r: 18, t: 18 + legend.height, b: 44 },
    xaxis: axis(theme, {
      ...byteTicks(log ? least : 0, most, log),
      type: log ? "log" : "linear",
      title: { text: log ? "bytes, each step ten times the one before" : "bytes", font: { size: 12 } },
    }),
    yaxis: rowAxis(theme, groups.map((g) => (g.group === null ? "no group" : g.group)), width),
    showlegend: true,
  });
  return { data, layout };
}

export function ioFigure(io, theme, width = 1200) {
  const sides = [
    ["read", "Read"],
    ["write", "Written"],
  ].filter(([key]) => io.rows.some((row) => row[`total_${key}_bytes`] > 0));
  const [unit, unitName] = timeUnit(io.bin_s * io.rows[0].read_bytes.length);
  const bins = io.rows[0].read_bytes.length;
  const x = Array.from({ length: bins }, (_, i) => ((i + 0.5) * io.bin_s) / unit);
  const most = Math.max(...io.rows.flatMap((row) => [...row.read_bytes, ...row.write_bytes]), 1);
  const least = Math.min(...io.rows.flatMap((row) => [...row.read_bytes, ...row.write_bytes]).filter((v) => v > 0), most);
  const top = Math.log10(most);
  const low = Math.max(Math.log10(least), top - 6, 0);
  const powers = [];
  const each = Math.max(1, Math.ceil((top - low) / 3));
  for (let p = Math.ceil(low); p <= top; p += each) powers.push(p);
  const height = Math.max(18 * io.rows.length, 100) + 92;
  const layout = base(theme, height, {
    margin: { l: 8, r: 8, t: 30, b: 44 },
    coloraxis: {
      cmin: low - (top - low) * 0.12,
      cmax: top === low ? top + 1 : top,
      colorscale: theme.dark
        ? [[0, "#20384d"], [0.5, "#2f7fb8"], [1, "#bfe3fb"]]
        : [[0, "#e3eef7"], [0.5, "#4c94c8"], [1, "#053a66"]],
      colorbar: {
        thickness: 12,
        outlinewidth: 0,
        tickvals: powers,
        ticktext: powers.map((p) => tickText(10 ** p)),
        title: { text: "a part", font: { size: 12 } },
        tickfont: { size: 11.5, color: theme.muted },
      },
    },
    annotations: [],
  });
  const data = sides.map(([key, words], i) => {
    const number = i === 0 ? "" : String(i + 1);
    const domain = sides.length === 1 ? [0, 1] : [i * 0.52, i * 0.52 + 0.48];
    layout[`xaxis${number}`] = axis(theme, { domain, anchor: `y${number}`, showgrid: false, zeroline: false, title: { text: unitName, font: { size: 12 } } });
    layout[`yaxis${number}`] = { ...rowAxis(theme, io.rows.map((row) => row.name), width), anchor: `x${number}`, showticklabels: i === 0 };
    layout.annotations.push({
      text: `<b>${words}</b> ${sizeText(io.rows.reduce((sum, row) => sum + row[`total_${key}_bytes`], 0))}`,
      x: domain[0], y: 1, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false,
    });
    return {
      type: "heatmap",
      x,
      y: io.rows.map((_, r) => r),
      z: io.rows.map((row) => row[`${key}_bytes`].map((v) => (v > 0 ? Math.log10(v) : null))),
      text: io.rows.map((row) =>
        row[`${key}_bytes`].map(
          (v, b) => `${safe(shorten(row.name, 60))}<br><b>${sizeText(v)}</b> ${words.toLowerCase()}, ${spell(b * io.bin_s)} to ${spell((b + 1) * io.bin_s)}`,
        ),
      ),
      hoverinfo: "text",
      hoverongaps: false,
      xgap: 1,
      ygap: 1,
      coloraxis: "coloraxis",
      xaxis: `x${number}`,
      yaxis: `y${number}`,
    };
  });
  return { data, layout };
}

export function wasteFigure(waste, theme, width = 1200) {
  const accounts = waste.accounts.filter((account) => account.held);
  const words = new Map();
  for (const account of accounts) for (const part of account.parts) words.set(part.part, part.words);
  const order = Object.keys(PART_STYLES).filter((part) => words.has(part));
  for (const part of words.keys()) if (!order.includes(part)) order.push(part);
  const legend = legendOf(order.map((part) => words.get(part)), width);
  const data = order.map((part, at) => {
    const [colour, shape] = PART_STYLES[part] || ["i0", "-"];
    const rows = accounts.flatMap((account, i) => {
      const found = account.parts.find((p) => p.part === part);
      return found ? [[account, i, found]] : [];
    });
    return {
      type: "bar",
      orientation: "h",
      name: legend.names[at],
      y: rows.map(([, i]) => i),
      x: rows.map(([, , found]) => found.ratio * 100),
      hoverinfo: "text",
      hovertext: rows.map(([account, , found]) => `${found.words}<br><b>${number(found.amount)} ${account.unit}</b>, ${percent(found.ratio)} of ${number(account.held)}`),
      marker: {
        color: theme[colour],
        line: { width: 0.5, color: theme["strong-line"] },
        pattern: { shape, fillmode: "overlay", fgcolor: theme.ink, fgopacity: 0.55, size: 7, solidity: 0.25 },
      },
    };
  });
  const layout = base(theme, 52 * accounts.length + 60 + legend.height, {
    barmode: "stack",
    bargap: 0.4,
    margin: { l: 8, r: 18, t: 14 + legend.height, b: 44 },
    xaxis: axis(theme, { range: [0, 100.4], ticksuffix: " %", title: { text: "of what was held", font: { size: 12 } } }),
    yaxis: rowAxis(theme, accounts.map((account) => account.name), width),
    showlegend: true,
  });
  return { data, layout };
}

export const FIGURES = {
  flow: flowFigure,
  critical_path: pathFigure,
  memory_requests: memoryFigure,
  io: ioFigure,
  waste: wasteFigure,
};
