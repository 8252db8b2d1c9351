/**
 * Which Machine a Node has, and whether its mark counts. A Machine is an object of a kind that the user names, such as that of
 * Cluster API. Its status names the Node that runs on it. Pure.
 */

import { type Annotation, type Malformed, read } from "../shared/annotations/entry.ts";
import type { NodeObject, OtherObject, Resource } from "../shared/kubernetes/cluster.ts";

/** A Machine whose status names a Node. */
export interface MachineSeen {
  readonly resource: Resource;
  /** Empty where its kind has no namespace. */
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The reason why its Node is to be fenced; undefined where it has no mark. */
  readonly mark: string | undefined;
  readonly nodeName: string;
  /** Undefined where its status names the Node by name alone, as in newer versions of Cluster API. */
  readonly nodeUid: string | undefined;
  readonly providerId: string | undefined;
}

/** What the Machines of a Node ask for. */
export interface MarksSeen {
  /** The one Machine that names the Node, and has the mark; undefined where there is none. */
  readonly machine?: MachineSeen | undefined;
  /** Why a mark does not count, as a message; undefined where none is passed by. */
  readonly unclearMark?: string | undefined;
}

/**
 * A Machine as the API server has it; undefined where its status names no Node.
 *
 * @param malformed gets a mark that does not parse
 */
export function parseMachine(
  resource: Resource,
  { metadata, spec, status }: OtherObject,
  mark: Annotation<string>,
  malformed: Malformed[] = [],
): MachineSeen | undefined {
  const { namespace = "", name, uid, resourceVersion } = metadata;
  const nodeName = textAt(status, "nodeRef", "name");
  if (nodeName === undefined || (textAt(status, "nodeRef", "kind") ?? "Node") !== "Node") return undefined;
  const wrong: Malformed[] = [];
  const machine = {
    ...{ resource, namespace, name, uid, resourceVersion, nodeName },
    mark: read(mark, metadata, wrong),
    nodeUid: textAt(status, "nodeRef", "uid"),
    providerId: textAt(spec, "providerID"),
  };
  malformed.push(...wrong.map((one) => ({ ...one, message: `of ${shownMachine(machine)}: ${one.message}` })));
  return machine;
}

/** An operator may write anything: a field that is no text counts as absent, and so does an empty one. */
function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = path.reduce<unknown>((at, field) => (at as Readonly<Record<string, unknown>> | null)?.[field], value);
  return typeof found === "string" && found !== "" ? found : undefined;
}

export function shownMachine({ namespace, name }: Pick<MachineSeen, "namespace" | "name">): string {
  return `the Machine ${namespace === "" ? name : `${namespace}/${name}`}`;
}

/**
 * True where the Machine stands for this Node. A management cluster has Machines of other clusters, whose Nodes may have the same
 * name: their uids and providerIDs differ. A Node that was made again has another uid, and the providerID of its machine.
 */
export function isMachineOf(node: NodeObject, machine: MachineSeen): boolean {
  if (machine.nodeName !== node.metadata.name) return false;
  const { providerID = "" } = node.spec ?? {};
  const isKnown = providerID !== "" && machine.providerId !== undefined;
  if (machine.nodeUid !== undefined && machine.nodeUid !== node.metadata.uid)
    return isKnown && machine.providerId === providerID;
  return !isKnown || machine.providerId === providerID;
}

/**
 * The mark that counts for a Node. Where several Machines name the Node, one of them is out of date, and its mark may be about
 * another machine: none of their marks counts then.
 */
export function marksOf(node: NodeObject, machines: readonly MachineSeen[]): MarksSeen {
  const own = machines.filter((machine) => isMachineOf(node, machine));
  const marked = own.filter(({ mark }) => mark !== undefined);
  const [machine] = marked;
  if (machine === undefined) return {};
  if (own.length === 1) return { machine };
  const names = own.map(shownMachine).sort().join(", ");
  return {
    unclearMark: `${own.length} Machines name the Node ${node.metadata.name}, and a mark of them does not count: ${names}. Mark the Node itself, or remove the Machine that is out of date`,
  };
}
