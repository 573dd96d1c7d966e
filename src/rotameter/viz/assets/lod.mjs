// Level of detail: what each pixel column of a row shows, without losing busy time.

// Adds the busy time of one row to `out` (bins x slots, in ticks). A failed attempt goes to the
// last slot, whatever its group. Returns how many attempts are in view.
export function binRow(tasks, row, from, to, bins, slots, out) {
  out.fill(0);
  const scale = bins / (to - from);
  const width = 1 / scale;
  let seen = 0;
  for (let i = tasks.first[row]; i < tasks.first[row + 1]; i += 1) {
    const start = tasks.start[i];
    if (start >= to) break; // starts rise within a row
    const end = tasks.end[i] > start ? tasks.end[i] : start + 1;
    if (end <= from) continue;
    seen += 1;
    const slot = tasks.state[i] === 1 ? slots - 1 : tasks.slot[i];
    const a = Math.max(start, from);
    const b = Math.min(end, to);
    const low = Math.min(Math.floor((a - from) * scale), bins - 1);
    const high = Math.min(Math.ceil((b - from) * scale), bins) - 1;
    if (high <= low) {
      out[low * slots + slot] += b - a;
      continue;
    }
    out[low * slots + slot] += from + (low + 1) * width - a;
    for (let bin = low + 1; bin < high; bin += 1) out[bin * slots + slot] += width;
    out[high * slots + slot] += b - (from + high * width);
  }
  return seen;
}

// Heights in pixels of the slots of one bin, from the bottom up. What fills at least half a pixel
// column gets a pixel, and so does any failed attempt (last slot) and any work at all.
export function heights(out, bin, slots, width, lanes, pixels) {
  const result = new Array(slots).fill(0);
  const whole = width * lanes;
  let busy = 0;
  let most = 0;
  let total = 0;
  for (let slot = 0; slot < slots; slot += 1) {
    const amount = out[bin * slots + slot];
    if (amount <= 0) continue;
    busy += amount;
    if (amount > out[bin * slots + most]) most = slot;
    const must = slot === slots - 1 || amount >= width * 0.5;
    result[slot] = Math.max(Math.round((amount / whole) * pixels), must ? 1 : 0);
    total += result[slot];
  }
  if (busy > 0 && total === 0) {
    result[most] = 1;
    total = 1;
  }
  while (total > pixels) {
    let tallest = 0;
    for (let slot = 1; slot < slots; slot += 1) if (result[slot] > result[tallest]) tallest = slot;
    result[tallest] -= 1;
    total -= 1;
  }
  return result;
}

// Paints bins as pixels. `image` is an Uint32Array of width x height; `rows` gives each row's top,
// height and lanes; `colours` one value a slot; `ground` one value a row.
export function paint(image, width, tasks, rows, from, to, colours, ground) {
  const slots = colours.length;
  const out = new Float64Array(width * slots);
  const binWidth = (to - from) / width;
  let seen = 0;
  for (let row = 0; row < rows.length; row += 1) {
    const { top, height, lanes } = rows[row];
    image.fill(ground[row], top * width, (top + height) * width);
    seen += binRow(tasks, row, from, to, width, slots, out);
    for (let x = 0; x < width; x += 1) {
      const tall = heights(out, x, slots, binWidth, lanes, height);
      let y = top + height - 1;
      for (let slot = 0; slot < slots; slot += 1) {
        for (let k = 0; k < tall[slot]; k += 1) {
          image[y * width + x] = colours[slot];
          y -= 1;
        }
      }
    }
  }
  return seen;
}

// The attempt of a row at a time, or -1; `slack` widens the short ones.
export function taskAt(tasks, row, at, slack) {
  let low = tasks.first[row];
  let high = tasks.first[row + 1];
  const begin = low;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tasks.start[middle] <= at + slack) low = middle + 1;
    else high = middle;
  }
  for (let i = low - 1; i >= begin && i >= low - 64; i -= 1) {
    if (tasks.end[i] + slack >= at) return i;
  }
  return -1;
}

const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

// Round tick positions (seconds) for an axis with at most `most` ticks.
export function ticks(from, to, most) {
  const least = (to - from) / Math.max(most, 1);
  let step = STEPS_S.find((s) => s >= least);
  if (least <= 30 || step === undefined) {
    const power = 10 ** Math.floor(Math.log10(least));
    step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least * 0.999999);
  }
  const found = [];
  for (let k = Math.ceil(from / step - 1e-9) + 0; k * step <= to + step * 1e-9; k += 1) {
    found.push(k * step);
  }
  return { step, at: found };
}

export function clamp(from, to, end, least) {
  const span = Math.min(Math.max(to - from, least), end);
  let low = (from + to - span) / 2;
  low = Math.min(Math.max(low, 0), end - span);
  return [low, low + span];
}

export function spell(value, step = 0) {
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  const unit = step > 0 ? Math.min(step, size) : size;
  const digits = (x, scale) => Math.min(9, Math.max(0, -Math.floor(Math.log10(x / scale) + 1e-9)));
  const by = (scale, name) =>
    `${(value / scale).toFixed(step > 0 ? digits(step, scale) : Math.max(0, 2 - Math.floor(Math.log10(size / scale))))} ${name}`;
  if (size >= 3599.5 || (step >= 60 && size >= 60)) {
    const minutes = Math.round(value / 60);
    const hours = Math.floor(minutes / 60);
    if (!hours) return `${minutes} min`;
    return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  }
  if (size >= 59.95 && step === 0) return `${Math.floor(Math.round(value) / 60)} min ${Math.round(value) % 60} s`;
  if (size >= 1 || (step > 0 && unit >= 0.1)) return by(1, "s");
  if (size >= 1e-3) return by(1e-3, "ms");
  return by(1e-6, "µs");
}

// Red, green and blue of a colour such as #0072b2 or #eee.
export function channels(hex) {
  const digits = hex.trim().slice(1);
  const full = digits.length < 6 ? [...digits].map((digit) => digit + digit).join("") : digits;
  return [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16));
}
