// Draws the charts when they come near, the others when the page has nothing else to do, so that paper
// and pictures of the whole page hold them all. plotly.js is inflated once, before the first of them.
import { canDecode, inflate } from "./decode.mjs";
import { FIGURES } from "./charts.mjs";

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };
export const PRINT_WIDTH = 680;
const COLOURS = ["bg", "surface", "ink", "muted", "line", "strong-line", "lane", "g0", "g1", "g2", "g3", "g4", "g5", "g6", "failed", "i0", "i1", "i2"];

export function themeNow() {
  const style = getComputedStyle(document.documentElement);
  const theme = { font: getComputedStyle(document.body).fontFamily, dark: style.colorScheme.includes("dark") };
  for (const name of COLOURS) theme[name] = style.getPropertyValue(`--${name}`).trim();
  return theme;
}

// The page's policy refuses style attributes set as text, and style sheets that it does not know;
// the same style set through the object model is allowed. Sheets for maps are not needed here.
export function tameStyles(scope = globalThis) {
  const original = scope.Element.prototype.setAttribute;
  scope.Element.prototype.setAttribute = function setAttribute(name, value) {
    if (name === "style" && this.style) this.style.cssText = value;
    else original.call(this, name, value);
  };
  const head = scope.document.head;
  head.appendChild = (node) =>
    node.nodeName === "STYLE" && node.textContent ? node : scope.Node.prototype.appendChild.call(head, node);
  return () => {
    delete head.appendChild;
  };
}

// Its text is inserted as it is: the page's policy knows its digest, and lets nothing else run.
export async function loadPlotly() {
  if (globalThis.Plotly) return globalThis.Plotly;
  const holder = document.getElementById("plotly-data");
  if (!holder) throw new Error("the page carries no plotly.js");
  const code = document.createElement("script");
  code.textContent = new TextDecoder().decode(await inflate(holder.textContent.trim()));
  holder.remove();
  const restore = tameStyles();
  document.head.append(code);
  restore();
  code.remove();
  if (!globalThis.Plotly) throw new Error("plotly.js did not start");
  return globalThis.Plotly;
}

const whenIdle = (work) => (globalThis.requestIdleCallback ?? ((later) => setTimeout(later, 500)))(work);

class Charts {
  constructor(facts, nodes) {
    this.facts = facts;
    this.nodes = nodes;
    this.drawn = new Set();
    this.wanted = [];
    this.working = false;
    this.library = null;
    this.failed = null;
    this.resting = false;
  }

  want(node) {
    if (this.drawn.has(node) || this.wanted.includes(node)) return;
    this.wanted.push(node);
    if (!this.working) this.work();
  }

  async work() {
    this.working = true;
    try {
      this.library ??= await loadPlotly();
      while (this.wanted.length) {
        await this.draw(this.wanted.shift());
        // Room for what the reader does between two charts.
        await new Promise((done) => setTimeout(done));
      }
    } catch (error) {
      this.failed = error;
      this.giveUp(error);
    }
    this.working = false;
    this.rest();
  }

  // One at a time: what comes near in between goes first.
  rest() {
    const left = this.nodes.find((node) => !this.drawn.has(node));
    if (!left || this.failed || this.resting) return;
    this.resting = true;
    whenIdle(() => {
      this.resting = false;
      this.want(left);
    });
  }

  async draw(node) {
    await this.put(node, node.clientWidth || 1200, { autosize: true });
    this.mark(node);
  }

  mark(node) {
    this.drawn.add(node);
    node.dataset.drawn = "yes";
  }

  // Names, legends and margins follow the width, so a figure is made anew for each.
  put(node, width, more) {
    const name = node.dataset.chart;
    const { data, layout } = FIGURES[name](this.facts[name], themeNow(), width);
    return this.library.react(node, data, { ...layout, ...more }, CONFIG);
  }

  async redraw() {
    for (const node of this.drawn) await this.draw(node);
  }

  // Paper does not wait: what is not drawn by now is hidden on it, and its table stands open.
  print(width) {
    if (!this.library || this.failed) return;
    for (const node of this.nodes) {
      if (width) this.put(node, width, { width, autosize: false });
      else this.draw(node);
      this.mark(node);
    }
  }

  giveUp(error) {
    for (const note of document.querySelectorAll("[data-part=chart-off]")) note.hidden = false;
    for (const node of document.querySelectorAll("[data-chart]")) if (!this.drawn.has(node)) node.hidden = true;
    for (const details of document.querySelectorAll("details[data-twin]")) details.open = true;
    console.warn("rotameter: the charts could not be drawn:", error);
  }
}

export function startCharts() {
  const source = document.getElementById("charts-data");
  const nodes = [...document.querySelectorAll("[data-chart]")];
  if (!source || !nodes.length || !canDecode() || !document.getElementById("plotly-data")) return null;
  const charts = new Charts(JSON.parse(source.textContent), nodes);
  for (const note of document.querySelectorAll("[data-part=chart-off]")) note.hidden = true;
  for (const details of document.querySelectorAll("details[data-twin]")) details.open = false;
  for (const node of nodes) node.hidden = false;
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        charts.want(entry.target);
      }
    },
    { rootMargin: "300px" },
  );
  charts.watch = () => {
    for (const node of nodes) near.observe(node);
    charts.rest();
  };
  let size = innerWidth;
  let later = 0;
  addEventListener("resize", () => {
    if (innerWidth === size) return;
    size = innerWidth;
    clearTimeout(later);
    later = setTimeout(() => charts.redraw(), 150);
  });
  return charts;
}
