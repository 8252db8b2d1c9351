/**
 * The rules that a run on real machines can do without, each with a script that shows the need for it. The product has no switch
 * for any of them: a hook of the module loader replaces one piece of its source, in the server or in the agents.
 */
import { type ChangedSource, environmentWith } from "./changed-sources.ts";
import { apiServer, type CutScript, nodeNames } from "./scripts.ts";

export interface RemovedFenceRule extends ChangedSource {
  readonly rule: string;
  /** What is removed. */
  readonly removed: string;
  /** Whose processes run without it. */
  readonly from: "server" | "agent";
  /** W, if it is another one than that of the suites. In milliseconds. */
  readonly watchdogMs?: number;
  /** Shows an overlap, or evidence by time of a boot that was not reset. */
  readonly script: CutScript;
}

const [target = "", ...others] = nodeNames;
const [outside = ""] = others.slice(-1);

export const removedFenceRules: readonly RemovedFenceRule[] = [
  {
    rule: "A-quorum",
    removed: "the quorum of peers in contact",
    from: "server",
    file: "functions/fence-node/decide-quorum.ts",
    text: "peers - excusingPeers(peers) + 1",
    instead: "0",
    script: {
      name: "A-quorum: most nodes are cut off the API server together, and excuse each other",
      marked: [target],
      staysOff: [],
      events: [
        { atMs: 0, event: { kind: "lose", nodes: nodeNames.slice(0, -1), to: [apiServer, outside] } },
        { atMs: 1_500, event: { kind: "mark", node: target } },
      ],
      healsAtMs: 40_000,
    },
  },
  {
    rule: "A-time",
    removed: "the watchdog and the margin in T: T is L",
    from: "server",
    file: "functions/fence-node/decide-time.ts",
    text: "return permitLifeMs + 2 * watchdogMs + marginMs;",
    instead: "return permitLifeMs;",
    watchdogMs: 4_000,
    script: {
      name: "A-time: the permit of a silent node is renewed up to the moment at which its fence is armed",
      marked: [target],
      staysOff: [],
      events: [
        { atMs: 0, event: { kind: "lose", nodes: [target], to: [apiServer] } },
        // Its Node is not Ready by now.
        { atMs: 8_000, event: { kind: "mark", node: target } },
        { atMs: 8_000, event: { kind: "await-taint", node: target } },
        { atMs: 8_000, event: { kind: "far-end-down", node: target } },
      ],
      healsAtMs: 15_000,
    },
  },
  {
    rule: "A-feeding",
    removed: "the permit as a condition of feeding: the watchdog is fed by a timer of its own",
    from: "agent",
    file: "functions/fence-node/agent/decide-feeding.ts",
    text: "const isPermitted = nowMs - permitMs <= permitLifeMs;",
    instead: "const isPermitted = true;",
    script: {
      name: "A-feeding: one node is cut off from everything",
      marked: [target],
      staysOff: [],
      events: [
        { atMs: 0, event: { kind: "far-end-down", node: target } },
        { atMs: 500, event: { kind: "mark", node: target } },
      ],
      healsAtMs: 40_000,
    },
  },
];

/** The environment of a process that runs without the rule. */
export const environmentWithout = ({ file, text, instead }: RemovedFenceRule): Readonly<Record<string, string>> =>
  environmentWith([{ file, text, instead }]);
