import assert from "node:assert/strict";
import { test } from "node:test";
import { type ModeView, whyExplicitOnly } from "../../../../../functions/fence-node/agent/decide-mode.ts";

const good: ModeView = {
  watchdog: 10_000,
  hasSucceeded: true,
  lists: [["b", "c", "d"]],
  drills: [new Set(["b", "c"])],
  node: { isExcluded: false, isInMaintenance: false },
  isLoop: false,
  isArmed: false,
};

const cases: readonly (readonly [string, Partial<ModeView>, ReturnType<typeof whyExplicitOnly>])[] = [
  ["a watchdog, contact, a Node, and most peers in a drill", {}, undefined],
  ["no watchdog", { watchdog: "no-watchdog" }, "no-watchdog"],
  ["a watchdog that another program has", { watchdog: "watchdog-busy", isArmed: true }, "watchdog-busy"],
  ["no success in this boot", { hasSucceeded: false }, "no-contact"],
  ["short boots in a row", { isLoop: true }, "short-boots"],
  ["a Node that is excluded", { node: { isExcluded: true, isInMaintenance: false } }, "never-fenced"],
  ["a Node in maintenance", { node: { isExcluded: false, isInMaintenance: true } }, "maintenance"],
  ["no list", { lists: [] }, "no-peers"],
  ["an empty list", { lists: [[]] }, "no-peers"],
  ["an empty list beside another", { lists: [["b"], []] }, "no-peers"],
  ["half of the peers", { drills: [new Set(["b"])] }, "peers-silent"],
  ["most peers over several drills", { drills: [new Set(["b"]), new Set(), new Set(["d"])] }, undefined],
  [
    "most peers of one list of two",
    {
      lists: [
        ["b", "c", "d"],
        ["d", "e", "f"],
      ],
    },
    "peers-silent",
  ],
  ["no drill yet", { drills: [] }, "peers-silent"],
  ["no drill yet in a process that takes over", { drills: [], isArmed: true }, undefined],
  ["a Node that was not read yet", { node: undefined }, "node-unknown"],
  ["the same in a process that takes over", { node: undefined, isArmed: true }, undefined],
  ["no peers in a process that takes over", { lists: [[]], drills: [], isArmed: true }, "no-peers"],
];

for (const [what, change, why] of cases) {
  test(`${what}: ${why ?? "armed"}`, () => assert.equal(whyExplicitOnly({ ...good, ...change }), why));
}
