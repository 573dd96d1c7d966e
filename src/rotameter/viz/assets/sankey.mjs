// The data flow as a figure: bars of tasks and data, links from left to right.
import { base, fade, sizeText } from "./figures.mjs";
import { distinct, safe, shorten } from "./names.mjs";
import { spell } from "./lod.mjs";

// Dependencies between parts that data go between are in the picture already.
function shown(flow) {
  const made = new Map();
  for (const link of flow.links) {
    if (!link.dependency && flow.nodes[link.to].kind === "data") {
      if (!made.has(link.to)) made.set(link.to, []);
      made.get(link.to).push(link.from);
    }
  }
  const same = (i) => (flow.nodes[i].again === null ? i : flow.nodes[i].again);
  const pairs = new Set();
  for (const link of flow.links) {
    if (link.dependency || flow.nodes[link.from].kind !== "data") continue;
    for (const from of made.get(link.from) || []) pairs.add(`${from} ${same(link.to)}`);
  }
  return flow.links.filter((link) => !link.dependency || !pairs.has(`${link.from} ${same(link.to)}`));
}

// How many links lead to each node at most, one after another; the links form no circle.
export function columns(flow) {
  const column = new Array(flow.nodes.length).fill(0);
  for (let round = 0; round < flow.nodes.length; round += 1) {
    let moved = false;
    for (const link of flow.links) {
      if (column[link.to] > column[link.from]) continue;
      column[link.to] = column[link.from] + 1;
      moved = true;
    }
    if (!moved) break;
  }
  // What nothing leads on from stands at the right edge, as plotly puts it.
  const last = Math.max(...column, 1);
  const leads = new Set(flow.links.map((link) => link.from));
  return { last, at: column.map((c, i) => (leads.has(i) ? c : last)) };
}

// Labels as long as their column has room.
function flowLabels(flow, width) {
  const { last, at } = columns(flow);
  const room = (width - 40) / last / 7.4 - 2;
  const wanted = flow.nodes.map((node, i) => {
    const many = node.members > 1 && room >= 14 ? ` ×${node.members.toLocaleString("en")}` : "";
    const end = node.again !== null ? " again" : many;
    // Labels of the last column stand to its left, where those of the one before may stand too.
    const meets = flow.links.some((link) => (link.from === i || link.to === i) && at[link.from] === last - 1 && at[link.to] === last);
    const share = last < 2 || at[i] < last - 1 ? 1 : meets ? 0.5 : 0.75;
    const limit = Math.floor(Math.min(room * share, 36)) - end.length;
    const few = limit < 4;
    return { label: node.label, kind: node.kind, limit: few ? Math.max(Math.floor(room / 2), 5) : limit, end: few ? "" : end, shown: !few || room >= 5 };
  });
  const named = wanted.filter((item) => item.shown);
  const short = distinct(named);
  named.forEach((item, i) => { item.text = safe(short[i] + item.end); });
  return wanted.map((item) => item.text || "");
}

// A whole name, in lines of so many signs.
function wrapped(label, width = 80) {
  return label.match(new RegExp(`.{1,${width}}`, "gsu")).map(safe).join("<br>");
}

function linkText(link, flow) {
  const from = flow.nodes[link.from];
  const to = flow.nodes[link.to];
  const lines = [`${safe(shorten(from.label, 60))} → ${safe(shorten(to.label, 60))}`];
  if (link.bytes !== null) lines.push(`<b>${sizeText(link.bytes)}</b>`);
  else lines.push(link.dependency ? "dependency, no bytes recorded" : "bytes not recorded");
  lines.push(`${link.count.toLocaleString("en")} ${link.dependency ? "dependencies" : "pairs of a task and data"}`);
  if (link.busy_s) lines.push(`busy ${spell(link.busy_s)}`);
  return lines.join("<br>");
}

export function flowFigure(flow, theme, width = 1200) {
  const total = flow.links.reduce((sum, link) => sum + (link.bytes || 0), 0);
  // What has no bytes is a hairline, or as wide as it is often where nothing has bytes.
  const wide = (link) => (total > 0 ? Math.max(link.bytes || 0, total * 0.002) : link.count);
  const kept = shown(flow);
  const colour = (link) => {
    if (link.dependency) return fade(theme.i1, 0.45);
    return fade(flow.nodes[link.from].kind === "data" ? theme.g3 : theme.g1, 0.42);
  };
  const trace = {
    type: "sankey",
    orientation: "h",
    arrangement: "snap",
    textfont: { size: 12, color: theme.ink, shadow: "none" },
    node: {
      label: flowLabels({ ...flow, links: kept }, width),
      color: flow.nodes.map((n) => (n.kind === "tasks" ? theme.g0 : theme.i0)),
      customdata: flow.nodes.map(
        (n) => `${wrapped(n.label)}<br>${n.members.toLocaleString("en")} ${n.kind === "tasks" ? "tasks" : "data objects"}${n.stage === null ? "" : `, stage ${n.stage}`}${n.again === null ? "" : "<br>drawn again here: a link leads back to it"}`,
      ),
      hovertemplate: "%{customdata}<extra></extra>",
      pad: 16,
      thickness: 13,
      line: { width: 0 },
    },
    link: {
      source: kept.map((link) => link.from),
      target: kept.map((link) => link.to),
      value: kept.map(wide),
      color: kept.map(colour),
      customdata: kept.map((link) => linkText(link, flow)),
      hovertemplate: "%{customdata}<extra></extra>",
    },
  };
  const height = Math.min(Math.max(30 * flow.nodes.length, 240), 860);
  return { data: [trace], layout: base(theme, height, { margin: { l: 10, r: 10, t: 12, b: 14 } }) };
}
