/** Every guard of a fence, by the snapshot that leads to it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FenceSnapshot } from "../../../../functions/fence-node/snapshot.ts";
import {
  agent,
  armed,
  armedAgent,
  away,
  back,
  brakesWith,
  claimed,
  clean,
  decided,
  inPhase,
  marked,
  noted,
  othersTaint,
  shown,
  shownNothing,
  tainted,
} from "./fence-snapshots.ts";

/** The guard, with the step that is taken. */
const outcome = (changes: Partial<FenceSnapshot>): readonly (string | undefined)[] => {
  const { guard, step } = decided(changes);
  return [guard, step?.kind];
};

const lastMs = claimed.sinceMs;
const cases: readonly [promise: string, snapshot: Partial<FenceSnapshot>, guard: string, step?: string][] = [
  ["a node that is gone needs no fence", { node: undefined, agent: undefined }, "not-marked"],
  ["a node without the mark gets none", { node: clean }, "not-marked"],
  ["a node that excludes itself gets none", { node: { ...marked, isNever: true } }, "never-fenced"],
  ["a name that is too long for the agent's Lease gets none", { name: "n".repeat(248) }, "name-too-long"],
  ["a name of 247 characters gets one", { name: "n".repeat(247) }, "claiming", "claim"],
  ["a name that the Lease of the slots needs gets none", { name: "slots" }, "name-reserved"],
  ["a Node that has never reported a boot gets none", { node: { ...marked, bootId: "" } }, "boot-unknown"],
  ["a Node that has never reported a machine gets none", { node: { ...marked, systemUuid: "" } }, "boot-unknown"],
  ["a node without an agent is proposed no peers", { node: clean, agent: undefined, proposal: [] }, "not-marked"],
  ["a record of another version stays as it is", { record: "unreadable" }, "record-unreadable"],
  ["without a record the taint of a fence goes", { node: { ...tainted, mark: undefined } }, "cleaning", "clean-node"],
  ["without a record the agent's Lease names no fence", { node: clean, agent: armedAgent }, "cleaning", "disarm"],
  ["a mark that goes gives the slot back first", { record: claimed, node: clean }, "releasing", "release-slot"],
  [
    "a mark that goes takes the fence back",
    { record: claimed, node: clean, brakes: brakesWith() },
    "taking-back",
    "end",
  ],
  [
    "a fence that is taken back removes its taint first",
    { record: claimed, node: { ...tainted, mark: undefined } },
    "taking-back",
    "clean-node",
  ],
  [
    "another machine under the name takes the fence back",
    { record: claimed, node: { ...marked, systemUuid: "machine-2" }, brakes: brakesWith() },
    "taking-back",
    "end",
  ],
  ["a node that was started anew has stopped", { record: claimed, node: back }, "stopped", "enter"],
  [
    "another tool's taint is waited for",
    {
      record: { ...claimed, hold: "foreign-fence" },
      node: { ...shown("claimed", "foreign-fence"), foreignFence: "x" },
    },
    "foreign-fence",
  ],
  [
    "maintenance is waited for",
    {
      record: { ...claimed, hold: "maintenance" },
      node: { ...shown("claimed", "maintenance"), isInMaintenance: true },
    },
    "maintenance",
  ],
  ["the taint comes before the fence is armed", { record: claimed }, "tainting", "taint"],
  ["a node without an agent is not armed", { record: claimed, node: tainted, agent: undefined }, "armed", "enter"],
  [
    "an agent of another boot is waited for",
    {
      record: { ...claimed, hold: "boot-unclear" },
      node: shown("claimed", "boot-unclear"),
      agent: { ...agent, bootId: "boot-0" },
      nowMs: lastMs + 59_999,
    },
    "boot-unclear",
  ],
  [
    "an agent of another boot is waited for no longer than a minute",
    { record: claimed, node: tainted, agent: { ...agent, bootId: "boot-0" }, nowMs: lastMs + 60_000 },
    "arming",
    "note-agent",
  ],
  ["the agent's Lease is noted before it is armed", { record: claimed, node: tainted }, "arming", "note-agent"],
  ["a noted Lease is armed", { record: { ...claimed, agent: noted }, node: tainted }, "arming", "arm"],
  [
    "a Lease that was renewed since is armed by what is noted",
    { record: { ...claimed, agent: noted }, node: tainted, agent: { ...agent, resourceVersion: "32" } },
    "arming",
    "arm",
  ],
  [
    "a Lease that says something else since is noted again",
    { record: { ...claimed, agent: noted }, node: tainted, agent: { ...agent, resourceVersion: "32", mode: "armed" } },
    "arming",
    "note-agent",
  ],
  [
    "a Lease that was renewed since is noted before it is armed a second time",
    { record: armed, node: tainted, agent: { ...agent, resourceVersion: "32" } },
    "arming",
    "note-agent",
  ],
  [
    "what is armed is in the phase armed",
    { record: { ...claimed, agent: noted }, agent: armedAgent },
    "armed",
    "enter",
  ],
  [
    "a Lease that was made anew is armed again",
    { record: armed, node: tainted, agent: { ...armedAgent, uid: "agent-2" } },
    "arming",
    "note-agent",
  ],
  ["a fence that was taken out of the Lease is armed again", { record: armed, node: tainted }, "arming", "arm"],
  ["a taint that was taken away is put back", { record: armed, agent: armedAgent }, "tainting", "taint"],
  [
    "a mark that goes after arming ends nothing",
    {
      record: { ...armed, hold: "not-armed" },
      node: { ...shown("armed", "not-armed"), mark: undefined },
      agent: armedAgent,
    },
    "not-armed",
  ],
  [
    "a fence is told on the Node",
    { record: { ...armed, hold: "not-armed" }, node: tainted, agent: armedAgent },
    "not-armed",
    "show",
  ],
  ["a hold is noted", { record: armed, node: tainted, agent: armedAgent }, "not-armed", "note-hold"],
  [
    "pods of a Node that is gone are waited for",
    { record: { ...armed, hold: "node-gone" }, node: undefined, bound: ["pod db/a-0"] },
    "node-gone",
  ],
  ["a Node that is gone with its pods ends the fence", { record: armed, node: undefined }, "recovering", "enter"],
  ["a new boot id is evidence", { record: armed, node: back, agent: armedAgent }, "stopped", "enter"],
  ["after a new boot id no pod goes", { record: inPhase("stopped"), node: back }, "recovering", "enter"],
  [
    "after a confirmation Kubernetes is told",
    { record: inPhase("stopped"), node: { ...tainted, confirmed: "fence-1", isReady: false } },
    "stopped",
    "set-out-of-service",
  ],
  [
    "our taint is put back before out-of-service comes",
    { record: inPhase("stopped"), node: { ...tainted, confirmed: "fence-1", isReady: false, hasFenceTaint: false } },
    "tainting",
    "taint",
  ],
  ["a confirmation that was taken back is none", { record: inPhase("stopped"), node: tainted }, "armed", "enter"],
  [
    "a taint of others that was taken back is no evidence",
    { record: inPhase("stopped", "out-of-service"), node: tainted },
    "armed",
    "enter",
  ],
  ["the pods of a Node that is gone go", { record: inPhase("stopped"), node: undefined }, "evacuating", "enter"],
  [
    "pods are waited for",
    { record: inPhase("evacuating"), node: away("evacuating"), bound: ["pod db/a-0"], nowMs: lastMs + 299_999 },
    "evacuating",
  ],
  [
    "pods that stay for five minutes are named",
    {
      record: { ...inPhase("evacuating"), hold: "stuck" },
      node: { ...away("evacuating"), shown: { fenceId: "fence-1", phase: "evacuating", hold: "stuck" } },
      bound: ["pod db/a-0"],
      nowMs: lastMs + 300_000,
    },
    "stuck",
  ],
  [
    "our out-of-service goes with the last pod",
    { record: inPhase("evacuating"), node: away("evacuating") },
    "evacuated",
    "remove-out-of-service",
  ],
  [
    "our out-of-service goes at once when the machine is Ready again",
    { record: inPhase("evacuating"), node: { ...back, outOfService: "ours" }, bound: ["pod db/a-0"] },
    "evacuated",
    "remove-out-of-service",
  ],
  [
    "a machine that is back and not Ready is still evacuated",
    {
      record: inPhase("evacuating"),
      node: { ...away("evacuating"), bootId: "boot-2" },
      bound: ["pod db/a-0"],
    },
    "evacuating",
  ],
  ["out-of-service of others stays", { record: inPhase("evacuating"), node: othersTaint() }, "fenced", "enter"],
  ["a machine that is down is waited for", { record: inPhase("fenced"), node: { ...away("fenced") } }, "fenced"],
  ["a mark that goes gives the Node back", { record: inPhase("fenced"), node: clean }, "recovering", "enter"],
  ["a Node that goes ends the fence", { record: inPhase("fenced"), node: undefined }, "recovering", "enter"],
  ["a machine that is back gives the Node back", { record: inPhase("fenced"), node: back }, "recovering", "enter"],
  [
    "a Node that is not Ready keeps the taint",
    { record: inPhase("recovering"), node: { ...back, ...away("recovering"), outOfService: undefined } },
    "not-ready",
  ],
  [
    "the Node is cleaned first",
    { record: inPhase("recovering"), node: back, agent: armedAgent },
    "recovering",
    "clean-node",
  ],
  [
    "the agent's Lease comes next",
    { record: inPhase("recovering"), node: clean, agent: armedAgent },
    "recovering",
    "disarm",
  ],
  ["the record goes last", { record: inPhase("recovering"), node: clean }, "recovering", "end"],
  [
    "a Node that is Ready is not told that its pods have ended, though a person says so",
    {
      record: { ...inPhase("stopped"), hold: "still-alive" },
      node: { ...shown("stopped", "still-alive"), confirmed: "fence-1" },
    },
    "still-alive",
  ],
  [
    "another machine under the name has the pods once the fenced one is confirmed to be off",
    { record: inPhase("stopped"), node: { ...back, systemUuid: "machine-2", confirmed: "fence-1" } },
    "recovering",
    "enter",
  ],
  [
    "another machine under the name is no evidence after the confirmation was taken back",
    { record: inPhase("stopped"), node: { ...back, systemUuid: "machine-2" } },
    "armed",
    "enter",
  ],
  [
    "another machine that is Ready under the name ends the fence",
    { record: inPhase("fenced"), node: { ...back, systemUuid: "machine-2" } },
    "recovering",
    "enter",
  ],
  [
    "a Node that names no boot is not back",
    { record: inPhase("fenced"), node: { ...away("fenced"), bootId: "", isReady: true } },
    "fenced",
  ],
  [
    "a Node that names no boot is no evidence",
    {
      record: { ...armed, hold: "not-armed" },
      node: { ...shown("armed", "not-armed"), bootId: "" },
      agent: armedAgent,
    },
    "not-armed",
  ],
  [
    "a confirmation does not stand in for a taint of others that was taken back",
    { record: inPhase("stopped", "out-of-service"), node: { ...tainted, confirmed: "fence-1" } },
    "armed",
    "enter",
  ],
  [
    "a Node that is Ready with the fenced boot is not back",
    { record: inPhase("evacuating"), node: { ...away("evacuating"), isReady: true }, bound: ["pod db/a-0"] },
    "evacuating",
  ],
  [
    "a machine that is Ready again gives the Node back, though pods are bound to it",
    { record: inPhase("evacuating"), node: back, bound: ["pod db/a-0"] },
    "recovering",
    "enter",
  ],
  [
    "a machine that is back and not Ready is waited for",
    { record: inPhase("fenced"), node: { ...away("fenced"), bootId: "boot-2" } },
    "fenced",
  ],
  [
    "a Node that is Ready with the fenced boot is waited for",
    { record: inPhase("fenced"), node: { ...away("fenced"), isReady: true } },
    "fenced",
  ],
  [
    "a Lease that names another boot is armed again",
    { record: armed, node: tainted, agent: { ...armedAgent, armed: { fenceId: "fence-1", bootId: "boot-0" } } },
    "arming",
    "note-agent",
  ],
  [
    "a mark that is left goes with the fence",
    { record: inPhase("recovering"), node: marked },
    "recovering",
    "clean-node",
  ],
  [
    "a Lease that names another fence is left alone",
    {
      record: inPhase("recovering"),
      node: clean,
      agent: { ...armedAgent, armed: { fenceId: "fence-2", bootId: "boot-1" } },
    },
    "recovering",
    "end",
  ],
  ["a marked Node that a fence left tainted gets a record", { node: tainted }, "claiming", "claim"],
  [
    "without a record the id of a fence goes",
    { node: { ...clean, shown: { ...shownNothing, fenceId: "fence-0" } } },
    "cleaning",
    "clean-node",
  ],
  [
    "without a record the phase of a fence goes",
    { node: { ...clean, shown: { ...shownNothing, phase: "armed" } } },
    "cleaning",
    "clean-node",
  ],
  [
    "without a record the hold of a fence goes",
    { node: { ...clean, shown: { ...shownNothing, hold: "stuck" } } },
    "cleaning",
    "clean-node",
  ],
  ["without a record our out-of-service goes", { node: { ...clean, outOfService: "ours" } }, "cleaning", "clean-node"],
  ["without a record out-of-service of others stays", { node: { ...clean, outOfService: "others" } }, "not-marked"],
];

for (const [promise, snapshot, guard, step] of cases) {
  test(`${promise}: ${guard}`, () => assert.deepEqual(outcome(snapshot), [guard, step]));
}
