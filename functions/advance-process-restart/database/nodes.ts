/** The nodes that are members of a database, and which of them runs in a pod. */

import { fieldsOf } from "../../shared/base/fields.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import { type Answered, askMembers, type Database, type Question } from "./exchange.ts";
import { databases } from "./table.ts";

export interface DatabaseNode {
  readonly id: string;
  readonly name: string;
  /** The addresses at which it says that it is reached. */
  readonly addresses: readonly string[];
  readonly roles: readonly string[];
  readonly isMasterEligible: boolean;
}

export interface DatabaseNodes {
  /** The members that have answered. */
  readonly nodes: readonly DatabaseNode[];
  /** How many members have not answered the one that was asked. */
  readonly silent: number;
}

/** A large cluster has hundreds of nodes, with some 300 bytes each. */
const mostBytes = 4 * 2 ** 20;

/**
 * The nodes, by a member that has a master: a node that has none knows only itself, and would take itself for a member. The
 * master has recovered the state of the cluster: before that it shows no settings, as if no restart had changed one. Throws
 * ClusterError.
 */
export function askNodes(database: Database): Promise<Answered<DatabaseNodes>> {
  const { masterRoles } = databases[database.product];
  const questions = questionsOf(masterRoles);
  return askMembers(database, async (ask): Promise<Answered<DatabaseNodes>> => {
    const master = await ask(questions.master);
    if ("unknown" in master) return master;
    const without = "the member that was asked has no master, or its master has not recovered the settings yet";
    return master.value === "" ? { unknown: without } : ask(questions.nodes);
  });
}

interface NodeQuestions {
  readonly nodes: Question<DatabaseNodes>;
  /** The id of the master; empty where the member has none, or that has not recovered the state of the cluster. */
  readonly master: Question<string>;
}

function questionsOf(masterRoles: ReadonlySet<string>): NodeQuestions {
  const filter = "filter_path=_nodes,nodes.*.name,nodes.*.host,nodes.*.ip,nodes.*.roles";
  return {
    nodes: {
      method: "GET",
      path: `/_nodes/http?${filter}`,
      mostBytes,
      read: (document) => readNodes(document, masterRoles),
    },
    master: { method: "GET", path: "/_cluster/state/master_node,blocks?local=true", read: readMaster },
  };
}

/** Undefined for what is no list of nodes. Pure. */
export function readNodes(document: unknown, masterRoles: ReadonlySet<string>): DatabaseNodes | undefined {
  const { _nodes: counts, nodes } = fieldsOf(document) ?? {};
  const { failed } = fieldsOf(counts) ?? {};
  const listed = fieldsOf(nodes);
  if (listed === undefined || typeof failed !== "number") return undefined;
  const read = Object.entries(listed).map(([id, node]) => readNode(id, node, masterRoles));
  return read.every((node) => node !== undefined) ? { nodes: read, silent: failed } : undefined;
}

function readNode(id: string, node: unknown, masterRoles: ReadonlySet<string>): DatabaseNode | undefined {
  const { name, host, ip, roles } = fieldsOf(node) ?? {};
  // A node that only passes requests on has no role, and no field where the answer was filtered.
  const listed: readonly unknown[] | undefined = roles === undefined ? [] : Array.isArray(roles) ? roles : undefined;
  if (typeof name !== "string" || listed === undefined) return undefined;
  const addresses = [...new Set([ip, host])].filter((one) => typeof one === "string" && one !== "");
  const texts = listed.filter((one) => typeof one === "string");
  const isMasterEligible = texts.some((role) => masterRoles.has(role));
  return { id, name, addresses: addresses as readonly string[], roles: texts, isMasterEligible };
}

/** The id of the block "state not recovered / initialized", in each version of both products. */
const notRecovered = "1";

function readMaster(document: unknown): string | undefined {
  const fields = fieldsOf(document);
  if (typeof fields?.cluster_name !== "string") return undefined;
  const { master_node: id, blocks } = fields;
  const isRecovered = fieldsOf(fieldsOf(blocks)?.global)?.[notRecovered] === undefined;
  return typeof id === "string" && isRecovered ? id : "";
}

/** The node of a pod: by its name, or else by the pod's address, if that is of one node alone. Pure. */
export function nodeOf(
  { name, address }: Pick<Pod, "name" | "address">,
  { nodes }: DatabaseNodes,
): DatabaseNode | undefined {
  const named = nodes.find((node) => node.name === name);
  if (named !== undefined || address === undefined) return named;
  const there = nodes.filter(({ addresses }) => addresses.includes(address));
  return there.length === 1 ? there[0] : undefined;
}

/** The names of the members that run in none of these pods. Pure. */
export function namesElsewhere(
  pods: readonly Pick<Pod, "name" | "address">[],
  found: DatabaseNodes,
): readonly string[] {
  const inPods = new Set(pods.map((pod) => nodeOf(pod, found)?.id));
  return found.nodes.filter(({ id }) => !inPods.has(id)).map(({ name }) => name);
}
