import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { canDecode, inflate, joinNames, joinPlanes, restoreTimes, unpack, unpackLines } from "../../../src/rotameter/viz/assets/decode.mjs";

function packed(values, width) {
  const planes = Buffer.alloc(values.length * width);
  values.forEach((value, i) => {
    for (let k = 0; k < width; k += 1) planes[k * values.length + i] = Math.floor(value / 256 ** k) % 256;
  });
  return { n: values.length, width, data: gzipSync(planes).toString("base64") };
}

test("arrays of each width come back", async () => {
  for (const [width, most] of [[1, 255], [2, 65535], [4, 4294967295]]) {
    const values = [0, 1, most, Math.floor(most / 3)];
    assert.deepEqual([...(await unpack(packed(values, width)))], values);
  }
  assert.deepEqual([...(await unpack(packed([], 4)))], []);
});

test("a wrong length is an error, not garbage", () => {
  assert.throws(() => joinPlanes(new Uint8Array(5), 2, 2), /expected 2 values/);
  assert.throws(() => joinPlanes(new Uint8Array(3), 1, 3), /expected/);
});

test("lines come back, whatever is in them", async () => {
  const lines = ["<script>", "", "🦀"];
  const data = gzipSync(Buffer.from(lines.join("\n"))).toString("base64");
  assert.deepEqual(await unpackLines({ n: 3, width: 0, data }), lines);
  assert.deepEqual(await unpackLines({ n: 0, width: 0, data: "" }), []);
});

test("times restart in each row", () => {
  const { first, start, end } = restoreTimes([2, 0, 2], [5, 10, 3, 4], [1, 2, 3, 0]);
  assert.deepEqual([...first], [0, 2, 2, 4]);
  assert.deepEqual([...start], [5, 15, 3, 7]);
  assert.deepEqual([...end], [6, 17, 6, 7]);
});

test("an old browser is told apart", async () => {
  assert.equal(canDecode({}), false);
  assert.equal(canDecode(), true);
  assert.equal((await inflate(gzipSync(Buffer.from("ab")).toString("base64"))).length, 2);
});

test("names are put together again, with and without a number", () => {
  // steps of numbers are counted from 1, 0 is none: 4, 3, none, 11
  assert.deepEqual(joinNames(["a-", "b"], ["!", ""], [0, 0, 1, 0], [10, 1, 7, 24]), ["a-4!", "a-3!", "b", "a-11!"]);
});
