/** For how long a node has been as it is: what goes on with a count, and what begins it anew. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Counts,
  countNodes,
  type ListTimes,
  longestGapMs,
} from "../../../../functions/watch-node-health/decide-counts.ts";
import type { NodeView } from "../../../../functions/watch-node-health/node-view.ts";
import { foreignMark, listAt, ownMark, ready, silent, unready } from "./views.ts";

/** Four other nodes, so that the one of a test makes no storm by itself. */
const others = ["a", "b", "c", "d"].map((name) => ({ ...ready, name }));
const count = (node: NodeView, times: ListTimes, before?: Counts) => countNodes([node, ...others], times, before, 40);

/** What has counted of a node after two lists, 10 s apart, in milliseconds; undefined: nothing is counted. */
function lasted(first: NodeView, second: NodeView, times = listAt(10_000)): number | undefined {
  return count(second, times, count(first, listAt(0))).counted.get("n")?.lastedMs;
}

test("a count runs from the end of the first list to the begin of the last one", () => {
  const first = count(silent, listAt(0));
  assert.equal(first.counted.get("n")?.lastedMs, 0);
  const second = count(silent, listAt(10_000), first);
  assert.equal(second.counted.get("n")?.lastedMs, 9_990);
  assert.equal(count(silent, listAt(20_000), second).counted.get("n")?.lastedMs, 19_990);
  assert.deepEqual([second.nodes, second.storm, [...second.counted.keys()]], [5, undefined, ["n"]]);
});

test("a node that falls silent goes on with its count, and one that reports again begins anew", () => {
  assert.equal(lasted(unready, { ...silent, changedAt: "later" }), 9_990);
  assert.equal(lasted(silent, { ...unready, changedAt: "later" }), 0);
  assert.equal(lasted(unready, ready), undefined);
});

test("the same status since another time was another one in between, whichever of the two is later", () => {
  assert.equal(lasted(silent, { ...silent, changedAt: "2025-01-01T00:00:00Z" }), 0);
  assert.equal(lasted(silent, { ...silent, changedAt: "2027-01-01T00:00:00Z" }), 0);
  const marked = { ...ready, ...ownMark };
  assert.equal(lasted(marked, { ...marked, changedAt: "later" }), 0);
});

test("another boot, another Node of the name, and another state begin the count anew", () => {
  assert.equal(lasted(silent, { ...silent, bootId: "boot-2" }), 0);
  assert.equal(lasted(silent, { ...silent, uid: "uid-2" }), 0);
  assert.equal(lasted(unready, { ...ready, ...ownMark }), 0);
});

test("a node that is Ready counts only with the mark of this function, and until a fence has done something to it", () => {
  const marked = { ...ready, ...ownMark };
  assert.equal(lasted(marked, marked), 9_990);
  assert.equal(lasted(ready, ready), undefined);
  assert.equal(lasted({ ...ready, ...foreignMark }, { ...ready, ...foreignMark }), undefined);
  const claimed = { ...marked, fence: "claimed" } as const;
  assert.equal(lasted(claimed, claimed), 9_990);
  const armed = { ...marked, fence: "going-on" } as const;
  assert.equal(lasted(armed, armed), undefined);
});

test("a mark, a fence, an exclusion, and a node that has never reported leave nothing of a count", () => {
  const left: readonly Partial<NodeView>[] = [
    ownMark,
    foreignMark,
    { fence: "claimed" },
    { fence: "going-on" },
    { excluded: { guard: "cordoned", message: "" } },
    { status: undefined },
  ];
  for (const change of left) {
    const first = count(silent, listAt(0));
    const second = count({ ...silent, ...change }, listAt(10_000), first);
    assert.equal(second.counted.get("n"), undefined, JSON.stringify(change));
    assert.equal(count(silent, listAt(20_000), second).counted.get("n")?.lastedMs, 0);
  }
});

test("no time of a storm counts: the nodes that are left begin anew after it", () => {
  const list = (silentNodes: number, atMs: number, before?: Counts) => {
    const named = others.map((node, at) => (at < silentNodes ? { ...silent, name: node.name } : node));
    return countNodes([silent, ...named], listAt(atMs), before, 40);
  };
  const storm = list(2, 10_000, list(0, 0));
  assert.deepEqual([storm.storm, [...storm.counted.keys()]], [["n", "a", "b"], []]);
  const after = list(1, 20_000, storm);
  assert.deepEqual([after.storm, after.counted.get("n")?.lastedMs], [undefined, 0]);
  const marked = countNodes(
    [
      { ...ready, ...ownMark },
      { ...silent, name: "a" },
    ],
    listAt(0),
    undefined,
    40,
  );
  assert.deepEqual([marked.storm?.length, [...marked.counted.keys()]], [2, ["n"]], "a node that is back counts");
});

test("a process that may have missed something counts anew: after a gap, and after a jump of the wall clock", () => {
  assert.equal(longestGapMs, 30_000);
  const gap = (ms: number) => lasted(silent, silent, listAt(listAt(0).endedMs + ms));
  assert.equal(gap(longestGapMs), longestGapMs);
  assert.equal(gap(longestGapMs + 1), 0);
  assert.equal(lasted(silent, silent, listAt(10_000, 5_000)), 0);
});
