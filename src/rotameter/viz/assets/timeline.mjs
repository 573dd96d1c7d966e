// The timeline's canvas: draws, zooms, tells what is under the pointer.
import { canDecode, restoreTimes, unpack, unpackNames } from "./decode.mjs";
import { channels, clamp, paint, spell, taskAt, ticks } from "./lod.mjs";

const EDGES_BELOW = 2000; // attempts in view: below, each one's start is drawn
const STATES = ["", "did not succeed", "has no recorded end"];

async function load(data) {
  const [counts, step, length, group, state] = await Promise.all(
    ["counts", "step", "length", "group", "state"].map((name) => unpack(data[name])),
  );
  const slot = new Uint8Array(group.length);
  for (let i = 0; i < group.length; i += 1) slot[i] = data.slot_of[group[i]];
  return { ...restoreTimes(counts, step, length), slot, group, state };
}

function colour(name) {
  const [red, green, blue] = channels(css(name));
  // Canvas pixels are stored as ABGR on little-endian machines.
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function rowHeight(count) {
  if (count <= 24) return 18;
  if (count <= 60) return 12;
  return count <= 250 ? 8 : 4;
}

function layout(data, ratio) {
  const height = Math.max(2, Math.round(rowHeight(data.rows.length) * ratio));
  const gap = Math.max(1, Math.round(ratio));
  let top = 0;
  const rows = data.rows.map((row, index) => {
    if (index && row.slot === 1 && row.of > 1) top += gap * 3;
    const placed = { top, height, lanes: row.lanes };
    top += height + gap;
    return placed;
  });
  return { rows, total: Math.max(top, height) };
}

function labelRows(box, data, rows, ratio) {
  let free = -1;
  box.replaceChildren();
  rows.forEach((place, index) => {
    const row = data.rows[index];
    const top = place.top / ratio;
    if (row.slot !== 1 || top < free) return;
    const label = document.createElement("span");
    // The end of an address tells workers apart, so where room is short the start goes.
    const narrow = box.clientWidth < 120 && row.label.length > 9;
    label.textContent = narrow ? `…${row.label.slice(-8)}` : row.label;
    label.title = row.of > 1 ? `${row.label}: ${row.of} slots` : row.label;
    label.style.top = `${top}px`;
    label.style.height = `${Math.max(place.height / ratio, 13)}px`;
    box.append(label);
    free = top + 13;
  });
}

function drawMarks(context, chart, place) {
  const { data, from, to, width, ratio } = chart;
  const scale = width / (to - from);
  for (const mark of data.marks) {
    const at = (mark.s * 1e9) / data.tick_ns;
    const until = mark.until_s === null ? at : (mark.until_s * 1e9) / data.tick_ns;
    if (until < from || at > to) continue;
    const top = place[mark.rows[0]].top;
    const bottom = place[mark.rows[1]].top + place[mark.rows[1]].height;
    const x = (at - from) * scale;
    if (mark.kind === "pause") {
      context.fillStyle = css("--pause");
      context.fillRect(x, top, Math.max((until - at) * scale, 2 * ratio), bottom - top);
      continue;
    }
    context.fillStyle = css("--ink");
    context.fillRect(x - ratio, top, 2 * ratio, bottom - top);
    const arm = 4 * ratio;
    context.strokeStyle = css("--ink");
    context.lineWidth = 2 * ratio;
    context.beginPath();
    context.moveTo(x - arm, top);
    context.lineTo(x + arm, top + 2 * arm);
    context.moveTo(x + arm, top);
    context.lineTo(x - arm, top + 2 * arm);
    context.stroke();
  }
}

function drawEdges(context, chart, place) {
  const { tasks, from, to, width } = chart;
  const scale = width / (to - from);
  context.fillStyle = css("--surface");
  for (let row = 0; row < place.length; row += 1) {
    if (place[row].lanes > 1) continue;
    for (let i = tasks.first[row]; i < tasks.first[row + 1]; i += 1) {
      if (tasks.start[i] < from || tasks.start[i] > to) continue;
      if ((tasks.end[i] - tasks.start[i]) * scale < 4) continue;
      context.fillRect(Math.round((tasks.start[i] - from) * scale), place[row].top, 1, place[row].height);
    }
  }
}

function drawAxis(chart) {
  const { axis, data, from, to } = chart;
  const unit = data.tick_ns / 1e9;
  const width = axis.clientWidth;
  const { step, at } = ticks(from * unit, to * unit, Math.max(2, Math.floor(width / 90)));
  axis.replaceChildren(
    ...at.map((second) => {
      const label = document.createElement("span");
      label.textContent = spell(second, step);
      const share = (second - from * unit) / ((to - from) * unit);
      label.style.left = `${share * 100}%`;
      if (share > 0.97) label.classList.add("last");
      if (share < 0.03) label.classList.add("first");
      return label;
    }),
  );
}

function describe(chart, seen) {
  const { data, from, to, width, ratio, rows } = chart;
  const unit = data.tick_ns / 1e9;
  const pixel = ((to - from) * unit) / (width / ratio);
  const detail =
    seen <= EDGES_BELOW && rows.every((row) => row.lanes === 1)
      ? "each attempt is drawn"
      : `one pixel is ${spell(pixel)}; its height is the busy share`;
  chart.status.textContent =
    `${spell(from * unit)} to ${spell(to * unit)} of ${spell(chart.end * unit)}: ` +
    `${seen.toLocaleString("en")} attempt${seen === 1 ? "" : "s"} in view, ${detail}.`;
  if (chart.brush) {
    chart.brush.style.left = `${(from / chart.end) * 100}%`;
    chart.brush.style.width = `${((to - from) / chart.end) * 100}%`;
    chart.brush.hidden = to - from >= chart.end * 0.9999;
  }
}

function draw(chart) {
  const { canvas, data, tasks } = chart;
  const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
  const width = Math.max(Math.round(canvas.parentElement.clientWidth * ratio), 50);
  const { rows, total } = layout(data, ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== total) canvas.height = total;
  canvas.style.height = `${total / ratio}px`;
  Object.assign(chart, { width, ratio, rows });
  labelRows(chart.labels, data, rows, ratio);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, total);
  const colours = [];
  for (let slot = 0; slot < data.colours; slot += 1) colours.push(colour(`--g${slot}`));
  colours.push(colour("--failed"));
  const ground = rows.map(() => colour("--lane"));
  const pixels = new Uint32Array(image.data.buffer);
  const seen = paint(pixels, width, tasks, rows, chart.from, chart.to, colours, ground);
  context.putImageData(image, 0, 0);
  if (seen <= EDGES_BELOW) drawEdges(context, chart, rows);
  drawMarks(context, chart, rows);
  drawAxis(chart);
  describe(chart, seen);
}

function look(chart, from, to) {
  [chart.from, chart.to] = clamp(from, to, chart.end, Math.min(20, chart.end));
  if (chart.waiting) return;
  chart.waiting = true;
  requestAnimationFrame(() => {
    chart.waiting = false;
    draw(chart);
  });
}

function zoom(chart, factor, share = 0.5) {
  const span = (chart.to - chart.from) * factor;
  const at = chart.from + (chart.to - chart.from) * share;
  look(chart, at - span * share, at + span * (1 - share));
}

function shareAt(event, box) {
  const bounds = box.getBoundingClientRect();
  return Math.min(Math.max((event.clientX - bounds.left) / bounds.width, 0), 1);
}

function dragToZoom(chart, box, timeOf) {
  let begin = null;
  const band = document.createElement("div");
  band.className = "band";
  band.hidden = true;
  box.append(band);
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    begin = shareAt(event, box);
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    if (begin === null) return;
    const now = shareAt(event, box);
    band.hidden = Math.abs(now - begin) < 0.003;
    band.style.left = `${Math.min(begin, now) * 100}%`;
    band.style.width = `${Math.abs(now - begin) * 100}%`;
  });
  const finish = (event) => {
    if (begin !== null && !band.hidden) {
      const now = shareAt(event, box);
      look(chart, timeOf(Math.min(begin, now)), timeOf(Math.max(begin, now)));
    }
    begin = null;
    band.hidden = true;
  };
  box.addEventListener("pointerup", finish);
  box.addEventListener("pointercancel", finish);
}

function tell(chart, event) {
  const box = chart.canvas.getBoundingClientRect();
  const y = (event.clientY - box.top) * chart.ratio;
  const row = chart.rows.findIndex((place) => y >= place.top && y < place.top + place.height);
  const { tip, tasks, data } = chart;
  tip.hidden = true;
  if (row < 0) return;
  const pixel = ((chart.to - chart.from) / chart.width) * chart.ratio;
  const at = chart.from + shareAt(event, chart.canvas) * (chart.to - chart.from);
  const mark = data.marks.find(
    (m) => row >= m.rows[0] && row <= m.rows[1] && Math.abs((m.s * 1e9) / data.tick_ns - at) < pixel * 5,
  );
  const i = taskAt(tasks, row, at, pixel);
  if (i < 0 && !mark) return;
  const unit = data.tick_ns / 1e9;
  const lines = mark ? [mark.text] : [];
  if (i >= 0) {
    lines.push(chart.names ? chart.names[i] : data.groups[tasks.group[i]]);
    if (chart.names) lines.push(`group ${data.groups[tasks.group[i]]}`);
    const ticks = tasks.end[i] - tasks.start[i];
    // Shorter ones are known to a tick only.
    const took = ticks < 2 ? `less than ${spell(2 * unit)}` : `${ticks < 50 ? "about " : ""}${spell(ticks * unit)}`;
    lines.push(`ran ${took} from ${spell(tasks.start[i] * unit)}`);
    if (tasks.state[i]) lines.push(STATES[tasks.state[i]]);
  }
  tip.replaceChildren(
    ...lines.map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }),
  );
  tip.hidden = false;
  const room = chart.frame.getBoundingClientRect();
  const left = Math.min(event.clientX - room.left + 14, room.width - tip.offsetWidth - 4);
  tip.style.left = `${Math.max(left, 0)}px`;
  tip.style.top = `${event.clientY - room.top + 16}px`;
}

function listen(chart) {
  const { root, canvas, overview } = chart;
  const plot = canvas.parentElement;
  const keys = {
    "+": () => zoom(chart, 0.5),
    "=": () => zoom(chart, 0.5),
    "-": () => zoom(chart, 2),
    0: () => look(chart, 0, chart.end),
    ArrowLeft: () => pan(chart, -0.2),
    ArrowRight: () => pan(chart, 0.2),
  };
  root.addEventListener("keydown", (event) => {
    const action = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  plot.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(chart, event.deltaY > 0 ? 1.25 : 0.8, shareAt(event, plot));
    },
    { passive: false },
  );
  plot.addEventListener("dblclick", () => look(chart, 0, chart.end));
  plot.addEventListener("pointermove", (event) => tell(chart, event));
  plot.addEventListener("pointerleave", () => {
    chart.tip.hidden = true;
  });
  dragToZoom(chart, plot, (share) => chart.from + share * (chart.to - chart.from));
  if (overview) dragToZoom(chart, overview, (share) => share * chart.end);
  for (const button of document.querySelectorAll("[data-zoom]")) {
    const does = { in: "+", out: "-", all: "0", left: "ArrowLeft", right: "ArrowRight" };
    button.addEventListener("click", keys[does[button.dataset.zoom]]);
  }
  new ResizeObserver(() => look(chart, chart.from, chart.to)).observe(plot);
}

function pan(chart, share) {
  const by = (chart.to - chart.from) * share;
  const low = Math.min(Math.max(chart.from + by, 0), chart.end - (chart.to - chart.from));
  look(chart, low, low + (chart.to - chart.from));
}

export async function startTimeline(root) {
  const source = document.getElementById("timeline-data");
  if (!source || !root) return null;
  if (!canDecode()) {
    document.getElementById("chart-fallback").hidden = false;
    return null;
  }
  const data = JSON.parse(source.textContent);
  const tasks = await load(data);
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const overview = document.querySelector('[data-part="overview"]');
  const end = Math.max(data.span_ns / data.tick_ns, 1);
  const chart = { root, data, tasks, from: 0, to: end, end, names: null, overview };
  for (const name of ["canvas", "labels", "axis", "status", "tip", "frame"]) chart[name] = part(name);
  if (overview) {
    chart.brush = document.createElement("div");
    chart.brush.className = "brush";
    overview.append(chart.brush);
  }
  root.hidden = false;
  draw(chart);
  listen(chart);
  chart.redraw = () => draw(chart);
  if (data.names) {
    unpackNames(data.names).then((names) => {
      chart.names = names;
    });
  }
  return chart;
}
