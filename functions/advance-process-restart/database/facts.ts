/**
 * What the database of a group reports of itself, for the rules before a restart in its turn. Any other answer than the expected
 * one makes all of it unknown, with a message that says why.
 */

import { restartDatabase } from "../../shared/annotations/restart.ts";
import { type Fields, fieldsOf } from "../../shared/base/fields.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { Zone } from "../../shared/groups/zones.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { DatabaseAnswer, DatabaseFacts, ShardCopy } from "../decide-rules.ts";
import { type Answered, askMembers, databaseOf, type Question } from "./exchange.ts";
import { askNodes, type DatabaseNodes, nodeOf } from "./nodes.ts";

/** What the database reports of itself besides its nodes. */
type DatabaseCondition = Omit<DatabaseFacts, "nodes">;
type ClusterHealth = Omit<DatabaseCondition, "allocation" | "copies">;

/** A large cluster has tens of thousands of shards, whose copies have some 100 bytes each. */
const mostBytes = 16 * 2 ** 20;

/** Asks the database that the StatefulSets of a group name. Throws ClusterError. */
export async function readFacts(context: Context, zones: readonly Zone[]): Promise<DatabaseAnswer> {
  const managed = zones.filter(({ workload }) => workload.restart !== undefined && !workload.deleting);
  const products = new Set(managed.map(({ workload }) => workload.restart?.database?.product ?? "none"));
  const database = databaseOf(context, managed);
  if (database === undefined) return { kind: "none" };
  if (products.size > 1)
    return unknown(
      `the StatefulSets of the group name several (${[...products].join(", ")}) in ${restartDatabase.key}`,
    );
  const nodes = await askNodes(database);
  if ("unknown" in nodes) return unknown(nodes.unknown);
  const { silent } = nodes.value;
  if (silent > 0) return unknown(`${silent} of its nodes report nothing of themselves`);
  const condition = await askMembers(database, async (ask): Promise<Answered<DatabaseCondition>> => {
    const health = await ask(healthQuestion);
    if ("unknown" in health) return health;
    const allocation = await ask(allocationQuestion);
    if ("unknown" in allocation) return allocation;
    const copies = await ask(copiesQuestion);
    return "unknown" in copies
      ? copies
      : { value: { ...health.value, allocation: allocation.value, copies: copies.value } };
  });
  if ("unknown" in condition) return unknown(condition.unknown);
  const pods = zones.flatMap((zone) => zone.pods);
  return { kind: "known", facts: { ...condition.value, nodes: membersIn(pods, nodes.value) } };
}

const unknown = (why: string): DatabaseAnswer => ({ kind: "unknown", why });

/** Copies name nodes by their ids. */
function membersIn(pods: readonly Pod[], found: DatabaseNodes): DatabaseFacts["nodes"] {
  const podOf = new Map(pods.map((pod) => [nodeOf(pod, found)?.id, pod.name]));
  return found.nodes.map(({ id, roles }) => ({ name: id, pod: podOf.get(id), roles }));
}

const healthQuestion: Question<ClusterHealth> = { method: "GET", path: "/_cluster/health", read: readHealth };

// With flat settings the filter finds nothing (OpenSearch 2.19).
const allocationQuestion: Question<string> = {
  method: "GET",
  path: "/_cluster/settings?include_defaults=true&filter_path=*.cluster.routing.allocation.enable",
  read: readAllocation,
};

const ofCopies = ["state", "primary", "node"].map((field) => `routing_table.indices.*.shards.*.${field}`);
const copiesQuestion: Question<readonly ShardCopy[]> = {
  method: "GET",
  path: `/_cluster/state/routing_table?filter_path=cluster_name,${ofCopies.join(",")}`,
  mostBytes,
  read: readCopies,
};

const healths: readonly unknown[] = ["green", "yellow", "red"];
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

/** Undefined for what is no health of a cluster. Pure. */
export function readHealth(document: unknown): ClusterHealth | undefined {
  const fields = fieldsOf(document) ?? {};
  const { status, timed_out: isTimedOut, number_of_pending_tasks: pending } = fields;
  const [relocating, initializing] = [fields.relocating_shards, fields.initializing_shards];
  const [delayed, inFlight] = [fields.delayed_unassigned_shards, fields.number_of_in_flight_fetch];
  if (!healths.includes(status) || typeof isTimedOut !== "boolean" || !isCount(pending)) return undefined;
  if (!isCount(relocating) || !isCount(initializing) || !isCount(delayed) || !isCount(inFlight)) return undefined;
  const health = status as DatabaseFacts["health"];
  return { health, isBusy: isTimedOut || pending > 0, relocating, initializing, delayed, inFlight };
}

/** The setting as it holds: a transient value counts before a persistent one, and this before the default. Pure. */
export function readAllocation(document: unknown): string | undefined {
  const { transient, persistent, defaults } = fieldsOf(document) ?? {};
  const values = [transient, persistent, defaults].map((one) => {
    const within = ["cluster", "routing", "allocation"].reduce<Fields | undefined>(
      (fields, key) => fieldsOf(fields?.[key]),
      fieldsOf(one),
    );
    return within?.enable;
  });
  const value = values.find((one) => one !== undefined);
  return typeof value === "string" ? value.toLowerCase() : undefined;
}

/** Undefined for what is no table of shards. A database without indices has none. Pure. */
export function readCopies(document: unknown): readonly ShardCopy[] | undefined {
  const { cluster_name: name, routing_table: table } = fieldsOf(document) ?? {};
  if (typeof name !== "string") return undefined;
  const indices = table === undefined ? {} : fieldsOf(fieldsOf(table)?.indices ?? {});
  if (indices === undefined) return undefined;
  const copies = Object.entries(indices).flatMap(([index, found]) => {
    const shards = fieldsOf(fieldsOf(found)?.shards);
    if (shards === undefined) return [undefined];
    return Object.entries(shards).flatMap(([number, listed]) =>
      Array.isArray(listed) ? listed.map((copy) => readCopy(`${index} ${number}`, copy)) : [undefined],
    );
  });
  return copies.every((copy) => copy !== undefined) ? copies : undefined;
}

function readCopy(shard: string, copy: unknown): ShardCopy | undefined {
  const { state, primary: isPrimary, node = null } = fieldsOf(copy) ?? {};
  if (typeof state !== "string" || typeof isPrimary !== "boolean") return undefined;
  if (node !== null && typeof node !== "string") return undefined;
  return { shard, isPrimary, state, node: node ?? undefined };
}
