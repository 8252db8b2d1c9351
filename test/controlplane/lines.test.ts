import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { linesOf } from "./lines.ts";

test("the lines of a stream come whole, wherever its pieces are split, even inside a letter of several bytes", async () => {
  const whole = ['{"name":"a"}', '{"name":"zürich\u2028"}'];
  const bytes = Buffer.from(`${whole.join("\n")}\n{"name":`);
  for (let at = 1; at < bytes.length; at++) {
    const pieces = Readable.from([bytes.subarray(0, at), bytes.subarray(at)]);
    assert.deepEqual(await Array.fromAsync(linesOf(pieces)), whole);
  }
});

test("a stream's error is thrown to its reader, and a reader that leaves the loop ends the stream", async () => {
  const broken = new Readable({ read() {} });
  broken.push("one\n");
  const lines = linesOf(broken);
  assert.equal((await lines.next()).value, "one");
  broken.destroy(new Error("reset"));
  await assert.rejects(lines.next(), /^Error: reset$/);
  const left = Readable.from(["one\n", "two\n"]);
  for await (const line of linesOf(left)) {
    assert.equal(line, "one");
    break;
  }
  assert.equal(left.destroyed, true);
});
