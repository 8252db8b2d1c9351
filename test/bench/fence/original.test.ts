/** The formula of the original, against the values that its own tests and a table of it have. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { originalSeconds } from "./original.ts";

test("the original's sum has the values of its own tests", () => {
  assert.equal(originalSeconds(2, 10), 130);
  const settings = {
    apiErrors: 4,
    apiCheckInterval: 25,
    apiServerTimeout: 7,
    peerDialTimeout: 11,
    peerRequestTimeout: 13,
  };
  assert.equal(originalSeconds(20, 25, settings), 351);
});

test("with its defaults it grows with the number of nodes", () => {
  const expected = [
    [1, 120],
    [3, 120],
    [4, 120],
    [6, 120],
    [7, 126],
    [9, 126],
    [10, 138],
    [20, 174],
    [30, 210],
    [50, 246],
    [100, 234],
    [1_000, 234],
  ] as const;
  for (const [nodes, seconds] of expected) {
    assert.equal(originalSeconds(nodes, 0), seconds, `${nodes} nodes`);
    assert.equal(originalSeconds(nodes, 60), seconds + 60, `${nodes} nodes with a watchdog of a minute`);
  }
  const withTen = [3, 10, 100, 1_000].map((nodes) => originalSeconds(nodes, 10));
  assert.deepEqual(withTen, [130, 148, 244, 244]);
});
