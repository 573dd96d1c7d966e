// The page itself: theme, copy buttons, then the charts and the timeline.
import { PRINT_WIDTH, startCharts } from "./draw.mjs";
import { startTimeline } from "./timeline.mjs";

function startTheme(onChange) {
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const now = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const label = () => {
    button.textContent = now() === "dark" ? "Light theme" : "Dark theme";
  };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    const next = now() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("rotameter-theme", next);
    } catch {
      // not kept, which is all that is lost
    }
    label();
    onChange();
  });
  dark.addEventListener("change", () => {
    label();
    onChange();
  });
}

function select(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

function startCopy() {
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      let done = "Copied";
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        select(code);
        done = "Selected";
      }
      button.textContent = done;
      setTimeout(() => {
        button.textContent = "Copy";
      }, 1500);
    });
  }
}

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const holder = target && target.closest("details");
  if (holder) holder.open = true;
}

// Paper is white: what is drawn in the colours of a dark screen is drawn again for it.
function startPrint(redraw) {
  const root = document.documentElement;
  let before = null;
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    if (before !== null) return;
    before = root.dataset.theme || "";
    root.dataset.theme = "light";
    redraw(PRINT_WIDTH);
  });
  addEventListener("afterprint", () => {
    if (before === null) return;
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    before = null;
    redraw(null);
  });
}

async function start() {
  let chart = null;
  const still = document.getElementById("chart-static");
  if (still) still.hidden = true;
  const charts = startCharts();
  startTheme(() => {
    if (chart) chart.redraw();
    if (charts) charts.redraw();
  });
  startCopy();
  openTarget();
  addEventListener("hashchange", openTarget);
  startPrint((width) => {
    if (chart) chart.redraw();
    if (charts) charts.print(width);
  });
  try {
    chart = await startTimeline(document.getElementById("chart"));
  } catch (error) {
    const note = document.getElementById("chart-fallback");
    if (note) note.hidden = false;
    console.warn("rotameter: the timeline could not be drawn:", error);
  }
  // After the first picture of the page, not before it.
  if (charts) requestAnimationFrame(() => setTimeout(charts.watch));
  globalThis.rotameter_chart = chart;
  globalThis.rotameter_charts = charts;
  globalThis.rotameter_ready = true;
}

start();
