import assert from "node:assert/strict";
import { test } from "node:test";

import { FIGURES, ioFigure, memoryFigure, pathFigure, wasteFigure } from "../../../src/rotameter/viz/assets/charts.mjs";
import { byteTicks, legendOf, rowAxis, sizeText } from "../../../src/rotameter/viz/assets/figures.mjs";
import { brief, distinct, safe, shorten } from "../../../src/rotameter/viz/assets/names.mjs";
import { columns, flowFigure } from "../../../src/rotameter/viz/assets/sankey.mjs";

const theme = new Proxy({ font: "sans", dark: false }, { get: (own, name) => own[name] ?? "#102030" });
const node = (label, kind, more = {}) => ({ label, kind, stage: 0, members: 3, other: false, again: null, ...more });
const link = (from, to, bytes, more = {}) => ({ from, to, dependency: false, count: 2, bytes, ops: null, busy_s: null, ...more });
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

test("names keep their signs and lose their middle", () => {
  assert.equal(safe("<b>&"), "&lt;b&gt;&amp;");
  assert.equal(shorten("abcdefghij", 7), "abcd…ij");
  assert.equal([...shorten("🦀".repeat(40), 9)].length, 9);
});

test("sizes have three digits and units of a thousand", () => {
  assert.deepEqual([0, 999, 1000, 20_480, 1.23e9, 999_600].map(sizeText), ["0 B", "999 B", "1.00 kB", "20.5 kB", "1.23 GB", "1.00 MB"]);
});

test("widths of links are their bytes, and what has none is a hairline", () => {
  const flow = { nodes: [node("in", "data"), node("t", "tasks"), node("u", "tasks")], links: [link(0, 1, 1000), link(1, 2, null, { dependency: true })] };
  const { data } = flowFigure(flow, theme);
  assert.deepEqual(data[0].link.value, [1000, 2]);
  assert.deepEqual([data[0].link.source, data[0].link.target], [[0, 1], [1, 2]]);
  assert.match(data[0].link.customdata[1], /dependency, no bytes/);
  const bare = { ...flow, links: [link(0, 1, null), link(1, 2, null, { count: 7 })] };
  assert.deepEqual(flowFigure(bare, theme).data[0].link.value, [2, 7]);
});

test("columns follow the links, and ends stand at the right", () => {
  const flow = { nodes: [0, 1, 2, 3].map((i) => node(`n${i}`, "tasks")), links: [link(0, 1, 1), link(1, 2, 1), link(0, 3, 1)] };
  assert.deepEqual(columns(flow), { last: 2, at: [0, 1, 2, 2] });
});

test("a hostile label stays text in every figure", () => {
  const bad = "<img onerror=x>";
  const flow = { nodes: [node(bad, "data"), node(bad, "tasks")], links: [link(0, 1, 5)] };
  const path = { makespan_s: 1, kinds: [{ kind: "compute", words: "running", seconds: 1, ratio: 1 }], parts: [{ group: bad, kind: "compute", seconds: 1 }] };
  const peak = { min: 1, q25: 1, median: 1, q75: 1, p95: 1, max: 1 };
  const memory = { granted: false, groups: [{ group: bad, known: 1, lower_bounds: 0, peak_bytes: peak, requested_bytes: null, used_ratio: null }] };
  const io = { bin_s: 1, rows: [{ name: bad, read_bytes: [1], write_bytes: [0], total_read_bytes: 1, total_write_bytes: 0 }] };
  const facts = { flow, critical_path: path, memory_requests: memory, io, waste: { accounts: [] } };
  for (const [name, make] of Object.entries(FIGURES)) {
    assert.ok(!JSON.stringify(make(facts[name], theme)).includes("<img"), name);
  }
});

const kinds = ["compute", "queue"].map((kind) => ({ kind, words: kind, seconds: 5, ratio: 0.5 }));

test("the waterfall has no gap, no overlap and ends at the makespan", () => {
  const parts = [];
  for (let g = 0; g < 60; g += 1) for (const { kind } of kinds) parts.push({ group: `g${g}`, kind, seconds: 1 / 12 });
  const { data, layout } = pathFigure({ makespan_s: 10, kinds, parts }, theme);
  const bars = data.flatMap((t) => t.x.map((x, i) => [t.base[i], t.base[i] + x])).sort((a, b) => a[0] - b[0]);
  near(bars[0][0], 0);
  for (let i = 1; i < bars.length; i += 1) near(bars[i][0], bars[i - 1][1]);
  near(bars.at(-1)[1], 10);
  assert.equal(layout.yaxis.ticktext.length, 24); // the others are summed
});

test("requests are lines across their row, unequal ones from least to most", () => {
  const peak = { min: 1e9, q25: 2e9, median: 3e9, q75: 4e9, p95: 5e9, max: 6e9 };
  const asked = (min, max) => ({ min, q25: min, median: min, q75: max, p95: max, max });
  const group = (more) => ({ group: "g", known: 4, lower_bounds: 0, peak_bytes: peak, requested_bytes: null, used_ratio: null, ...more });
  const groups = [group({ requested_bytes: asked(8e9, 8e9), used_ratio: 0.4 }), group({ requested_bytes: asked(7e9, 9e9) }), group({ peak_bytes: null })];
  const { data, layout } = memoryFigure({ granted: true, groups }, theme);
  assert.deepEqual(data[0].q3, [4e9, 4e9]);
  assert.deepEqual(data[1].x.filter((x) => x !== null).slice(0, 4), [8e9, 8e9, 7e9, 7e9]);
  assert.equal(Math.max(...data[1].x), 9e9);
  assert.equal(layout.xaxis.type, "linear");
  assert.match(data[2].hovertext[0], /granted 8.00 GB/);
});

test("what to ask for is a dotted line, and inside the axis", () => {
  const peak = { min: 1e9, q25: 2e9, median: 3e9, q75: 4e9, p95: 5e9, max: 6e9 };
  const group = (advised_bytes) => ({ group: "g", known: 4, lower_bounds: 0, peak_bytes: peak, requested_bytes: null, used_ratio: null, advised_bytes });
  const { data, layout } = memoryFigure({ granted: false, groups: [group(null), group(9e9)] }, theme);
  const dotted = data.find((trace) => trace.line && trace.line.dash === "dot");
  assert.deepEqual(dotted.x, [9e9, 9e9, null]);
  assert.ok(dotted.y.slice(0, 2).every((y) => Math.round(y) === 1));
  assert.ok(layout.xaxis.range[1] >= 9e9);
  assert.match(data[1].hovertext[1], /ask for 9.00 GB/);
  const none = memoryFigure({ granted: false, groups: [group(null)] }, theme);
  assert.ok(!none.data.some((trace) => trace.line && trace.line.dash === "dot"));
});

test("ticks are round and cover the values", () => {
  const { tickvals, range } = byteTicks(0, 7.3e9, false);
  assert.deepEqual(tickvals.slice(0, 3), [0, 2e9, 4e9]);
  assert.ok(range[1] >= 7.3e9);
  assert.deepEqual(byteTicks(1e3, 1e6, true).tickvals, [1e3, 1e4, 1e5, 1e6]);
});

test("the map shows what was read and what was written, nothing where nothing was", () => {
  const row = { name: "w", read_bytes: [10, 0, 1000], write_bytes: [0, 0, 0], total_read_bytes: 1010, total_write_bytes: 0 };
  const { data, layout } = ioFigure({ bin_s: 2, rows: [row] }, theme);
  assert.equal(data.length, 1);
  assert.deepEqual(data[0].z, [[1, null, 3]]);
  assert.ok(layout.coloraxis.cmin < 1 && layout.coloraxis.cmax === 3);
  const both = ioFigure({ bin_s: 2, rows: [{ ...row, total_write_bytes: 5, write_bytes: [5, 0, 0] }] }, theme);
  assert.deepEqual(both.data.map((t) => t.yaxis), ["y", "y2"]);
});

test("the bars of what was held fill a hundred percent", () => {
  const part = (name, ratio) => ({ part: name, words: name, amount: ratio * 8, ratio });
  const account = (name, parts) => ({ name, unit: "core·s", held: parts.length ? 8 : null, parts });
  const waste = { accounts: [account("a", [part("useful", 0.7), part("idle", 0.2), part("new kind", 0.1)]), account("b", []), account("c", [part("idle", 1)])] };
  const { data, layout } = wasteFigure(waste, theme);
  const total = [0, 0];
  for (const trace of data) trace.y.forEach((y, i) => { total[y] += trace.x[i]; });
  near(total[0], 100);
  near(total[1], 100);
  assert.deepEqual(layout.yaxis.ticktext, ["a", "c"]);
  assert.equal(data[0].name, "useful");
});

test("folders and scopes of a name go before its middle", () => {
  assert.equal(brief("/tmp/x/worker-*", 12), "x/worker-*");
  assert.equal(brief("/tmp/x/worker-*", 9), "worker-*");
  assert.equal(brief("NFCORE:RNASEQ:ALIGN:SORT", 10), "ALIGN:SORT");
  assert.equal(brief("RNASEQ.ALIGN_STAR.STAR", 8), "STAR");
  assert.equal(brief("sifted.SIFT.txt", 9, "data"), "sifte….txt".slice(0, 6) + "txt");
  assert.equal(brief("individuals chr#n-#.tar.gz", 12), shorten("individuals chr#n-#.tar.gz", 12));
  assert.equal(brief("out.part.tar.gz", 9), shorten("out.part.tar.gz", 9));
  assert.equal(brief("a:b", 10), "a:b");
  assert.equal(brief("abcdefghijkl", 7), "abcd…kl");
});

test("a dependency that data show already is not drawn twice", () => {
  const nodes = [node("a", "tasks"), node("d", "data"), node("b", "tasks"), node("c", "tasks")];
  const links = [link(0, 1, 5), link(1, 2, 5), link(0, 2, null, { dependency: true }), link(2, 3, null, { dependency: true })];
  const { data } = flowFigure({ nodes, links }, theme);
  assert.deepEqual(data[0].link.source, [0, 1, 2]);
  assert.deepEqual(data[0].link.target, [1, 2, 3]);
});

test("different names of the data flow stay different where there is little room", () => {
  const item = (label, limit = 7, kind = "tasks") => ({ label, limit, kind });
  const names = ["run_idfeature", "run_mapfeature", "run_identifymcs", "run_robustmcs", "run_speed"];
  const short = distinct(names.map((name) => item(name)));
  assert.equal(new Set(short).size, names.length, short.join(" "));
  assert.ok(short.every((text) => [...text].length <= 7), short.join(" "));
  assert.deepEqual(short.slice(0, 2), ["…idf…re", "…map…re"]);
  // What differs only in a middle that no room is left for is numbered.
  assert.deepEqual(distinct([item("aaaaaaaaaaaaXbbbbbbbbbbbbbb"), item("aaaaaaaaaaaaYbbbbbbbbbbbbbb")]), ["…Xbb…bb", "…Ybb…bb"]);
  const inside = distinct([item("Xabcdefghijk1mnopqrstuvZ", 7), item("Xabcdefghijk2mnopqrstuvZ", 7), item("Xabcdefghijk1lnopqrstuvZ", 7)]);
  assert.equal(new Set(inside).size, 3, inside.join(" "));
  const many = ["track_1.nc", "trackn_2.nc", "mcs_1.nc", "mcs_tr_2.nc", "mcs_tr_2.nc"];
  const tiny = distinct(many.map((name) => item(name, 5, "data")));
  assert.equal(new Set(tiny).size, 4, tiny.join(" "));
  // The same name twice, as of a node that is drawn again, is the same label.
  assert.deepEqual(distinct([item("run_idfeature"), item("run_idfeature")]), ["run_…re", "run_…re"]);
});

test("labels of the drawn flow differ and its tooltips have whole names", () => {
  const long = "run_" + "x".repeat(120) + "_id";
  const nodes = [node("run_idfeature", "tasks"), node("a.nc", "data"), node("run_mapfeature", "tasks"), node("b.nc", "data"), node("run_identifymcs", "tasks"), node("c.nc", "data"), node("run_robustmcs", "tasks"), node(long, "data")];
  const links = nodes.slice(1).map((_, i) => link(i, i + 1, 5));
  const { data } = flowFigure({ nodes, links }, theme, 800);
  const shown = data[0].node.label.filter((text) => text);
  assert.equal(new Set(shown).size, shown.length, shown.join(" "));
  assert.ok(data[0].node.customdata[7].replaceAll("<br>", "").startsWith(long));
});

test("names with room keep all of their parts, others lose folders only as far as needed", () => {
  const { ticktext } = rowAxis(theme, ["siteA/fit", "siteB/fit", "siteC/fit", "<b>bold</b>"]);
  assert.deepEqual(ticktext, ["siteA/fit", "siteB/fit", "siteC/fit", "&lt;b&gt;bold&lt;/b&gt;"]);
  assert.equal(brief("a/very/long/path/to/fit", 15), "long/path/to/fit".slice(5));
  assert.equal(brief("<b>bold</b>", 34), "<b>bold</b>");
  // 34 signs: what differs is in front, and the end is all that has room otherwise.
  const long = ["site1", "site2"].map((site) => `${site}/${"x".repeat(30)}/fit`);
  const short = rowAxis(theme, long).ticktext;
  assert.equal(new Set(short).size, 2, short.join(" "));
  const flow = { nodes: ["A", "B"].flatMap((s) => [node(`site${s}/load`, "tasks", { members: 4 }), node(`site${s}/fit`, "tasks", { members: 4 })]), links: [link(0, 1, null, { dependency: true }), link(2, 3, null, { dependency: true })] };
  assert.deepEqual(flowFigure(flow, theme).data[0].node.label, ["siteA/load ×4", "siteA/fit ×4", "siteB/load ×4", "siteB/fit ×4"]);
});

test("a legend has a line for each name that has no room beside another", () => {
  const names = ["peak: from least to most, the box holds the middle half", "to ask for (see Sizing)"];
  const wide = legendOf(names, 1200);
  assert.deepEqual(wide.names, names);
  assert.equal(wide.height, 21);
  // 55 signs and 23 at 6.8 px, and twice 48 px for the marks, are 626.4 px in one row.
  assert.equal(legendOf(names, 637).height, 21);
  assert.equal(legendOf(names, 636).height, 42);
  const narrow = legendOf(names, 370);
  // 304 px at 6.8 px a sign are 44 signs: the first name takes two lines.
  assert.deepEqual(narrow.names, ["peak: from least to most, the box holds the<br>middle half", "to ask for (see Sizing)"]);
  assert.equal(narrow.height, 2 * 18 + 3 + 18 + 3);
  for (const name of narrow.names) for (const line of name.split("<br>")) assert.ok(line.length <= 44);
});
