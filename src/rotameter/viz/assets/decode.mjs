// Packed arrays of the page back into typed arrays: base64, gzip, byte planes.

export function canDecode(scope = globalThis) {
  return typeof scope.DecompressionStream === "function" && typeof scope.Response === "function";
}

export async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Planes hold all lowest bytes, then all second bytes, and so on.
export function joinPlanes(planes, count, width) {
  const kinds = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };
  if (!kinds[width] || planes.length !== count * width) {
    throw new Error(`expected ${count} values of ${width} bytes, got ${planes.length} bytes`);
  }
  const values = new kinds[width](count);
  for (let i = 0; i < count; i += 1) {
    let value = 0;
    for (let k = width - 1; k >= 0; k -= 1) value = value * 256 + planes[k * count + i];
    values[i] = value;
  }
  return values;
}

export async function unpack(packed) {
  return joinPlanes(await inflate(packed.data), packed.n, packed.width);
}

export async function unpackLines(packed) {
  if (packed.n === 0) return [];
  return new TextDecoder().decode(await inflate(packed.data)).split("\n");
}

// Names of tasks: what stands before and after the number that tells them apart.
export function joinNames(before, after, pattern, number) {
  const names = new Array(pattern.length);
  let now = 0;
  for (let i = 0; i < pattern.length; i += 1) {
    now += number[i] % 2 ? -(number[i] + 1) / 2 : number[i] / 2;
    names[i] = before[pattern[i]] + (now > 0 ? now - 1 : "") + after[pattern[i]];
  }
  return names;
}

export async function unpackNames(packed) {
  const [before, after] = await Promise.all([unpackLines(packed.before), unpackLines(packed.after)]);
  return joinNames(before, after, await unpack(packed.pattern), await unpack(packed.number));
}

// Rows one after another; within a row, each start is a step from the one before.
export function restoreTimes(counts, step, length) {
  const first = new Uint32Array(counts.length + 1);
  for (let row = 0; row < counts.length; row += 1) first[row + 1] = first[row] + counts[row];
  const start = new Float64Array(step.length);
  const end = new Float64Array(step.length);
  for (let row = 0; row < counts.length; row += 1) {
    let at = 0;
    for (let i = first[row]; i < first[row + 1]; i += 1) {
      at += step[i];
      start[i] = at;
      end[i] = at + length[i];
    }
  }
  return { first, start, end };
}
