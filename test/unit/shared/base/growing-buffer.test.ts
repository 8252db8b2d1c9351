import assert from "node:assert/strict";
import { test } from "node:test";
import { GrowingBuffer, type Holder, SharedMemory } from "../../../../functions/shared/base/growing-buffer.ts";

test("pieces of any size are joined in order, and a later change of a piece has no effect", () => {
  const buffer = new GrowingBuffer(1_000_000);
  const parts = Array.from({ length: 500 }, (_, index) => Buffer.alloc((index * 37) % 901, String(index % 10)));
  const expected = Buffer.concat(parts);
  for (const part of parts) {
    assert.ok(buffer.append(part));
    part.fill("x");
  }
  assert.deepEqual(buffer.whole(), expected);
});

test("a body of one piece takes as much memory as it has bytes, and one of single bytes less than twice that", () => {
  const whole = new GrowingBuffer(1_000_000);
  assert.equal(whole.growthFor(4_321), 4_321);
  const bytes = new GrowingBuffer(1_000_000);
  let taken = 0;
  for (let count = 0; count < 70_000; count++) {
    taken += bytes.growthFor(1) ?? 0;
    bytes.append(Buffer.from("x"));
  }
  assert.equal(bytes.whole().length, 70_000);
  assert.ok(taken < 2 * 70_000, `${taken}`);
});

test("neither the length nor the memory of a buffer exceeds its limit", () => {
  const buffer = new GrowingBuffer(100);
  assert.equal(buffer.append(Buffer.alloc(60)), true);
  assert.equal(buffer.growthFor(40), 40);
  assert.equal(buffer.append(Buffer.alloc(40)), true);
  assert.equal(buffer.growthFor(1), undefined);
  assert.equal(buffer.append(Buffer.alloc(1)), false);
  assert.equal(buffer.whole().length, 100);
  assert.equal(buffer.append(Buffer.alloc(0)), true);
});

test("a buffer's memory is freed at once when it grows, and when it is freed", () => {
  const buffer = new GrowingBuffer(1_000_000);
  buffer.append(Buffer.alloc(20_000));
  const before = buffer.whole();
  buffer.append(Buffer.alloc(1));
  assert.equal(before.buffer.byteLength, 0);
  const after = buffer.whole();
  buffer.free();
  assert.equal(after.buffer.byteLength, 0);
  assert.equal(buffer.whole().length, 0);
});

test("buffers share one limit: at the limit the largest is dropped, and only its owner learns that", () => {
  const memory = new SharedMemory(100);
  const gone: string[] = [];
  const holderOf = (name: string): Holder => {
    const holder: Holder = {
      bytes: 0,
      giveUp: () => {
        gone.push(name);
        memory.leave(holder);
      },
    };
    return holder;
  };
  const [small, large, larger] = ["small", "large", "larger"].map(holderOf) as [Holder, Holder, Holder];
  assert.ok(memory.take(small, 10) && memory.take(large, 60));
  assert.equal(memory.take(larger, 70), false);
  assert.deepEqual([gone, memory.bytes], [["larger"], 70]);
  assert.equal(memory.take(small, 31), true);
  assert.deepEqual([gone, memory.bytes], [["larger", "large"], 41]);
  memory.leave(small);
  memory.leave(small);
  assert.deepEqual([memory.bytes, memory.take(larger, 100)], [0, true]);
});
