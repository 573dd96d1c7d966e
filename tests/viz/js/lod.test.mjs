import assert from "node:assert/strict";
import { test } from "node:test";

import { binRow, channels, clamp, heights, paint, spell, taskAt, ticks } from "../../../src/rotameter/viz/assets/lod.mjs";

// A small generator, so that every run sees the same numbers.
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function makeTasks(rows, each, seed) {
  const next = random(seed);
  const count = rows * each;
  const tasks = {
    first: new Uint32Array(rows + 1),
    start: new Float64Array(count),
    end: new Float64Array(count),
    slot: new Uint8Array(count),
    state: new Uint8Array(count),
    group: new Uint16Array(count),
  };
  for (let row = 0; row < rows; row += 1) {
    tasks.first[row + 1] = (row + 1) * each;
    let at = 0;
    for (let i = row * each; i < (row + 1) * each; i += 1) {
      at += Math.floor(next() * 50);
      tasks.start[i] = at;
      at += 1 + Math.floor(next() * 90);
      tasks.end[i] = at;
      tasks.slot[i] = Math.floor(next() * 7);
      tasks.state[i] = next() < 0.05 ? 1 : 0;
    }
  }
  return tasks;
}

function busyIn(tasks, row, from, to) {
  let sum = 0;
  for (let i = tasks.first[row]; i < tasks.first[row + 1]; i += 1) {
    sum += Math.max(0, Math.min(tasks.end[i], to) - Math.max(tasks.start[i], from));
  }
  return sum;
}

test("bins keep the busy time of a row, at any zoom", () => {
  const tasks = makeTasks(3, 400, 7);
  for (const [from, to, bins] of [[0, 30000, 1000], [1234.5, 1890.25, 333], [100, 101, 50], [0, 9, 1000]]) {
    for (let row = 0; row < 3; row += 1) {
      const out = new Float64Array(bins * 8);
      binRow(tasks, row, from, to, bins, 8, out);
      const sum = out.reduce((a, b) => a + b, 0);
      const width = (to - from) / bins;
      assert.ok(Math.abs(sum - busyIn(tasks, row, from, to)) <= Math.min(width, 1e-6), `${from} ${to} ${row}`);
      for (let bin = 0; bin < bins; bin += 1) {
        let busy = 0;
        for (let slot = 0; slot < 8; slot += 1) busy += out[bin * 8 + slot];
        assert.ok(busy <= width * (1 + 1e-9));
      }
    }
  }
});

test("failed attempts go to the last slot and always show", () => {
  const tasks = { first: [0, 2], start: [0, 9990], end: [9990, 9991], slot: [0, 1], state: [0, 1] };
  const out = new Float64Array(10 * 3);
  assert.equal(binRow(tasks, 0, 0, 10000, 10, 3, out), 2);
  assert.equal(out[9 * 3 + 2], 1);
  const tall = heights(out, 9, 3, 1000, 1, 12);
  assert.equal(tall[2], 1);
  assert.equal(tall[0] + tall[1] + tall[2], 12);
});

test("nothing longer than a pixel vanishes, even in a row of many slots", () => {
  const next = random(3);
  for (let round = 0; round < 200; round += 1) {
    const start = next() * 900;
    const length = 10.01 + next() * 20;
    const tasks = { first: [0, 1], start: [start], end: [start + length], slot: [4], state: [0] };
    const out = new Float64Array(100 * 8);
    binRow(tasks, 0, 0, 1000, 100, 8, out);
    let seen = false;
    for (let bin = 0; bin < 100; bin += 1) seen ||= heights(out, bin, 8, 10, 64, 8)[4] > 0;
    assert.ok(seen, `${start} ${length}`);
  }
});

test("heights never leave the row", () => {
  const next = random(11);
  for (let round = 0; round < 300; round += 1) {
    const out = Float64Array.from({ length: 8 }, () => (next() < 0.5 ? 0 : next() * 10));
    const tall = heights(out, 0, 8, 10, 1 + Math.floor(next() * 8), 4);
    assert.ok(tall.reduce((a, b) => a + b, 0) <= 4);
    assert.ok(tall.every((x) => x >= 0));
  }
});

test("paint fills only its rows and counts what is in view", () => {
  const tasks = makeTasks(2, 100, 5);
  const rows = [{ top: 0, height: 4, lanes: 1 }, { top: 6, height: 4, lanes: 1 }];
  const image = new Uint32Array(50 * 10);
  const seen = paint(image, 50, tasks, rows, 0, 1e6, [1, 2, 3, 4, 5, 6, 7, 8], [9, 9]);
  assert.equal(seen, 200);
  assert.ok(image.slice(4 * 50, 6 * 50).every((x) => x === 0));
  assert.ok(image.slice(0, 4 * 50).every((x) => x >= 1 && x <= 9));
});

test("taskAt finds the attempt under the pointer", () => {
  const tasks = makeTasks(2, 300, 9);
  for (let i = 0; i < 600; i += 7) {
    const row = i < 300 ? 0 : 1;
    const middle = (tasks.start[i] + tasks.end[i]) / 2;
    assert.equal(taskAt(tasks, row, middle, 0), i);
  }
  assert.equal(taskAt(tasks, 0, -5, 0), -1);
});

test("ticks are round, inside, and few", () => {
  for (const [from, to] of [[0, 0.002], [0, 35.6], [3, 4], [0, 822], [1000, 200000], [0, 1e7]]) {
    const { at } = ticks(from, to, 8);
    assert.ok(at.length >= 1 && at.length <= 10, `${from} ${to} ${at.length}`);
    assert.ok(at.every((t) => t >= from - 1e-9 && t <= to * (1 + 1e-9)));
  }
  assert.deepEqual(ticks(0, 35.6, 8).at, [0, 5, 10, 15, 20, 25, 30, 35]);
});

test("clamp keeps the view inside the run", () => {
  assert.deepEqual(clamp(-50, 50, 1000, 20), [0, 100]);
  assert.deepEqual(clamp(990, 1010, 1000, 20), [980, 1000]);
  assert.deepEqual(clamp(-5, 5000, 1000, 20), [0, 1000]);
  const [low, high] = clamp(500, 500.5, 1000, 20);
  assert.equal(high - low, 20);
});

test("spell writes times as the tables do", () => {
  assert.equal(spell(0), "0 s");
  assert.equal(spell(0.00012), "120 µs");
  assert.equal(spell(0.25), "250 ms");
  assert.equal(spell(12.34), "12.3 s");
  assert.equal(spell(754.2), "12 min 34 s");
  assert.equal(spell(8000), "2 h 13 min");
  assert.equal(spell(120, 60), "2 min");
  assert.equal(spell(1.5, 0.5), "1.5 s");
  assert.equal(spell(95.3), "1 min 35 s");
  assert.equal(spell(59.9), "59.9 s");
});

test("colours of three digits are those of six", () => {
  assert.deepEqual(channels(" #0072b2"), [0, 0x72, 0xb2]);
  assert.deepEqual(channels("#eee"), [0xee, 0xee, 0xee]);
});
