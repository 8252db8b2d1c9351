/** The output of `kubectl sluice fenced`: fences under way, and the agents that do not reset their node by themselves. */
import * as keys from "../../functions/shared/annotations/fencing.ts";
import { agentName, nodeOfRecord } from "../../functions/shared/annotations/fencing-leases.ts";
import { type Annotation, read } from "../../functions/shared/annotations/table.ts";
import { markOf } from "../../functions/shared/fencing/mark.ts";
import type { Cluster, LeaseObject, NodeObject } from "../../functions/shared/kubernetes/cluster.ts";
import type { FencedArguments } from "./commands.ts";
import { formatSpan } from "./span.ts";
import { type Emphasis, tableOf } from "./text.ts";

/** A node that is fenced, or that has the mark. */
export interface FenceInspection {
  readonly node: string;
  /** Null where no fence has begun; `unreadable` where another version wrote its record. */
  readonly phase: keys.FencePhase | "unreadable" | null;
  /** Since when it is in its phase, by the API server's clock. */
  readonly since: string | null;
  readonly fenceId: string | null;
  readonly evidence: string | null;
  /** The guard that it waits for. */
  readonly hold: string | null;
  /** The reason in the mark; null where the Node has none, or is gone. */
  readonly mark: string | null;
  /** Null where the Node is gone. */
  readonly ready: boolean | null;
}

/** An agent that is not `armed`: isolation alone does not reset its node, and time is no evidence for it. */
export interface UnarmedAgent {
  readonly node: string;
  /** Null where it says none, or where the node has no agent. */
  readonly mode: string | null;
  readonly why: string;
}

export interface FenceList {
  /** Where the records and the agents' Leases are. */
  readonly namespace: string;
  /** The API server's clock. */
  readonly at: string;
  readonly fences: readonly FenceInspection[];
  readonly nodes: number;
  readonly armed: number;
  readonly unarmed: readonly UnarmedAgent[];
}

/** All fences and agents, or those of one node. Throws ClusterError. */
export async function inspectFences(
  cluster: Cluster,
  namespace: string,
  { name, mark: fenceMark }: Pick<FencedArguments, "name" | "mark">,
): Promise<FenceList> {
  const mark = markOf({ settings: { fenceMark } });
  const [nodes, leases] = await Promise.all([cluster.list("nodes", {}), cluster.list("leases", { namespace })]);
  const isAsked = (node: string) => name === undefined || node === name;
  const byNode = new Map(nodes.items.map((node) => [node.metadata.name, node]));
  const records = new Map(
    leases.items.flatMap((lease) => {
      const node = nodeOfRecord(lease.metadata.name);
      return node === undefined || read(keys.fenceRecord, lease.metadata) === undefined ? [] : [[node, lease] as const];
    }),
  );
  const agents = new Map(leases.items.map((lease) => [lease.metadata.name, lease]));
  const marked = nodes.items.filter(({ metadata }) => read(mark, metadata) !== undefined);
  const fenced = [...new Set([...records.keys(), ...marked.map(({ metadata }) => metadata.name)])].sort();
  const asked = [...byNode.keys()].filter(isAsked).sort();
  const unarmed = asked.flatMap((node) => unarmedAgent(node, agents.get(agentName(node))) ?? []);
  return {
    namespace,
    at: new Date(cluster.serverTimeMs()).toISOString(),
    fences: fenced.filter(isAsked).map((node) => inspectFence(node, byNode.get(node), records.get(node), mark)),
    nodes: asked.length,
    armed: asked.length - unarmed.length,
    unarmed,
  };
}

/** What a record says; `unreadable` where another version wrote it. */
export function readRecord({ metadata }: LeaseObject) {
  const [phase, fenceId] = [read(keys.fencePhase, metadata), read(keys.fenceId, metadata)];
  const sinceMs = read(keys.recordSince, metadata);
  if (phase === undefined || fenceId === undefined || sinceMs === undefined) return "unreadable";
  return {
    phase,
    fenceId,
    sinceMs,
    evidence: read(keys.recordEvidence, metadata),
    hold: read(keys.fenceHold, metadata),
  };
}

/** The condition Ready of a Node. */
export const isReady = ({ status }: NodeObject): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;

function inspectFence(
  name: string,
  node: NodeObject | undefined,
  lease: LeaseObject | undefined,
  mark: Annotation<string>,
): FenceInspection {
  const reason = node && read(mark, node.metadata);
  const shown = { node: name, mark: reason ?? null, ready: node === undefined ? null : isReady(node) };
  const record = lease && readRecord(lease);
  if (record === undefined || record === "unreadable") {
    const [since, fenceId, evidence, hold] = [null, null, null, null];
    return { ...shown, phase: record ?? null, since, fenceId, evidence, hold };
  }
  const { phase, sinceMs, fenceId, evidence = null, hold = null } = record;
  return { ...shown, phase, since: new Date(sinceMs).toISOString(), fenceId, evidence, hold };
}

function unarmedAgent(node: string, lease: LeaseObject | undefined): UnarmedAgent | undefined {
  if (lease === undefined) return { node, mode: null, why: "no agent has run there" };
  const mode = read(keys.agentMode, lease.metadata);
  return mode === "armed" ? undefined : { node, mode: mode ?? null, why: read(keys.agentWhy, lease.metadata) ?? "" };
}

/** A table of fences, one of agents, and below them a count. */
export function formatFences({ at, fences, nodes, armed, unarmed }: FenceList, emphasize: Emphasis): string {
  const nowMs = Date.parse(at);
  const rows = fences.map(({ node, phase, since, evidence, hold, mark, ready }) => [
    node,
    phase ?? "-",
    since === null ? "-" : formatSpan(nowMs - Date.parse(since)),
    evidence ?? "-",
    hold ?? "-",
    ready === null ? "gone" : ready ? "yes" : "no",
    mark ?? "-",
  ]);
  const tables = [
    tableOf(["NODE", "PHASE", "FOR", "EVIDENCE", "WAITS", "READY", "MARK"], rows, emphasize),
    tableOf(
      ["AGENT", "MODE", "WHY"],
      unarmed.map(({ node, mode, why }) => [node, mode ?? "-", why || "-"]),
      emphasize,
    ),
    fences.some(({ hold }) => hold !== null)
      ? ["kubectl describe node NODE prints why it waits, and what ends that."]
      : [],
    [`${armed} of ${nodes} nodes have an agent that is armed`],
  ];
  return `${tables
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join("\n"))
    .join("\n\n")}\n`;
}
