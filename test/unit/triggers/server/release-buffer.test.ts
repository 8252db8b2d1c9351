import assert from "node:assert/strict";
import { test } from "node:test";
import { release, releaseSoon } from "../../../../triggers/server/release-buffer.ts";

test("the memory of a large buffer is freed at once", () => {
  const large = Buffer.from(new ArrayBuffer(64 * 1024));
  release(large);
  assert.equal(large.buffer.byteLength, 0);
});

test("a buffer that shares its memory is not freed, because other buffers use the rest", () => {
  const whole = Buffer.from(new ArrayBuffer(128 * 1024));
  const half = whole.subarray(0, 64 * 1024);
  const small = Buffer.from(new ArrayBuffer(1_024));
  for (const piece of [half, small]) release(piece);
  assert.equal(whole.byteLength, 128 * 1024);
  assert.equal(small.byteLength, 1_024);
});

test("a buffer that is being parsed is freed only afterwards", async () => {
  const large = Buffer.from(new ArrayBuffer(64 * 1024));
  releaseSoon(large);
  assert.equal(large.byteLength, 64 * 1024);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(large.byteLength, 0);
});
