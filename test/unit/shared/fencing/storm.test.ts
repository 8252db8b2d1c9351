/** A storm: two nodes at least, and more than a percentage of all, are marked or not Ready. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isUnhealthy, type NodeHealth, stormOf } from "../../../../functions/shared/fencing/decide-storm.ts";

const well: NodeHealth = { isReady: true, isMarked: false };
const silent: NodeHealth = { isReady: false, isMarked: false };
const marked: NodeHealth = { isReady: true, isMarked: true };
const times = (count: number, node: NodeHealth): readonly NodeHealth[] => new Array(count).fill(node);

test("a node is unhealthy that is marked or not Ready", () => {
  assert.deepEqual([well, silent, marked].map(isUnhealthy), [false, true, true]);
});

test("a storm is more than the percentage of all nodes, and two at least", () => {
  const storm = (...nodes: readonly (readonly NodeHealth[])[]) => stormOf(nodes.flat(), 40)?.length;
  assert.equal(storm(times(2, silent), times(3, well)), undefined);
  assert.equal(storm(times(1, silent), times(1, marked), times(2, well)), 2);
  assert.equal(storm(times(1, silent)), undefined);
  assert.equal(storm(times(2, silent)), 2);
  assert.equal(stormOf(times(9, silent), 100), undefined);
  assert.deepEqual(stormOf([silent, well, marked], 0), [silent, marked]);
});
