/**
 * Reads Machines, where the user names their kinds. Each process lists their metadata with every tick of the schedule, and whole
 * objects only while one of them has the mark. What it has seen is in memory alone, and a decision rests on GETs of now.
 */

import type { Malformed } from "../shared/annotations/entry.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { markOf } from "../shared/fencing/mark.ts";
import { type Cluster, ClusterError, type NodeObject, type Resource } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import { findTypes, reportKinds } from "../shared/reconcile/named-kinds.ts";
import { isMachineOf, type MachineSeen, type MarksSeen, marksOf, parseMachine, shownMachine } from "./machine-marks.ts";
import { markSettings } from "./mark-settings.ts";
import type { FenceSnapshot } from "./snapshot.ts";

const by = "fence-node";
/** What was seen is read again after this time, in milliseconds: the schedule mostly comes before. */
const seenForMs = 15_000;

interface MachineSurvey {
  /** Those that name the Node of one that has the mark. */
  readonly machines: readonly MachineSeen[];
  /** Why they could not be read; undefined where they were. */
  readonly failure: ClusterError | undefined;
}

const nothing: MachineSurvey = { machines: [], failure: undefined };

/** Of each process. What is forgotten costs a list. */
const surveys = new WeakMap<Cluster, { readonly atMs: number; readonly survey: Promise<MachineSurvey> }>();

/** Reads the Machines anew. Resolves to the names of the Nodes that Machines with the mark name. */
export async function surveyMachines(context: Context): Promise<readonly string[]> {
  const { machines } = await surveyNow(context);
  return machines.flatMap(({ mark, nodeName }) => (mark === undefined ? [] : [nodeName]));
}

/** True where a Machine had the mark for this Node when this process read them last. */
export async function isMarkedByMachine(context: Context): Promise<(node: NodeObject) => boolean> {
  const { machines } = await recentSurvey(context);
  const marked = machines.filter(({ mark }) => mark !== undefined);
  return (node) => marked.some((machine) => isMachineOf(node, machine));
}

function recentSurvey(context: Context): Promise<MachineSurvey> {
  const known = surveys.get(context.cluster);
  const isRecent = known !== undefined && lastedMs(context.cluster) - known.atMs < seenForMs;
  return isRecent ? known.survey : surveyNow(context);
}

function surveyNow(context: Context): Promise<MachineSurvey> {
  if (valuesOf(markSettings, context.settings).fenceMachineKinds.length === 0) return Promise.resolve(nothing);
  const survey = listMarked(context).then(
    (machines) => ({ machines, failure: undefined }),
    (failure: unknown) => {
      if (!(failure instanceof ClusterError)) throw failure;
      reportKinds(context, by, markSettings.fenceMachineKinds, [failure]);
      return { machines: [], failure };
    },
  );
  surveys.set(context.cluster, { atMs: lastedMs(context.cluster), survey });
  return survey;
}

/** The Machines that name the Node of a marked one. A kind that is not served is reported once. Throws ClusterError. */
async function listMarked(context: Context): Promise<readonly MachineSeen[]> {
  const { cluster } = context;
  const mark = markOf(context);
  const { fenceMachineKinds } = markSettings;
  const { resources, notServed } = await findTypes(cluster, valuesOf(markSettings, context.settings).fenceMachineKinds);
  reportKinds(context, by, fenceMachineKinds, notServed);
  const marked = (await Promise.all(resources.map((one) => cluster.list(one, { metadataOnly: true })))).flatMap(
    ({ items }) => items.filter(({ metadata }) => metadata.annotations?.[mark.key] !== undefined),
  );
  if (marked.length === 0) return [];
  const machines = (await Promise.all(resources.map((one) => listWhole(cluster, one)))).flatMap(({ resource, items }) =>
    items.flatMap((item) => parseMachine(resource, item, mark) ?? []),
  );
  const known = new Set(machines.map(({ uid }) => uid));
  const nameless = marked.filter(({ metadata }) => !known.has(metadata.uid));
  reportKinds(
    context,
    by,
    fenceMachineKinds,
    nameless.map(({ metadata: { namespace = "", name } }) => ({
      message: `${shownMachine({ namespace, name })} has the mark, and its status names no Node`,
    })),
  );
  const uids = new Set(marked.map(({ metadata }) => metadata.uid));
  const nodes = new Set(machines.filter(({ uid }) => uids.has(uid)).map(({ nodeName }) => nodeName));
  return machines.filter(({ nodeName }) => nodes.has(nodeName));
}

async function listWhole(cluster: Cluster, resource: Resource) {
  const { items } = await cluster.list(resource, {});
  return { resource, items };
}

type MarkedNode = Pick<FenceSnapshot, "node" | "record">;

/** Nothing has to be read of the Machines of a node whose own mark is enough, or whose mark changes nothing now. */
function needsMachines({ node, record }: MarkedNode): boolean {
  if (node === undefined || record === "unreadable") return false;
  if (record?.phase === "recovering") return true;
  return node.mark === undefined && (record === undefined || record.phase === "claimed" || record.phase === "fenced");
}

/**
 * What the Machines of a Node ask for now. Where they cannot be read, their marks do not count: the webhooks that convert them
 * may run on the node that is to be fenced. A fence that may rest on such a mark waits instead, because it would end without.
 *
 * @param seen by the Node's own mark
 * @param malformed gets a mark that does not parse
 * @throws ClusterError where that fence has to wait
 */
export async function readMarks(
  context: Context,
  object: NodeObject | undefined,
  seen: MarkedNode,
  malformed: Malformed[],
): Promise<MarksSeen> {
  if (object === undefined || !needsMachines(seen)) return {};
  const { name } = object.metadata;
  try {
    const named = seen.record === undefined ? await namedRecently(context, name) : await namedNow(context, name);
    return marksOf(object, (await Promise.all(named.map((one) => readMachine(context, one, malformed)))).flat());
  } catch (error) {
    const mayRestOnIt = seen.record !== undefined && seen.node?.mark === undefined && seen.node?.hasFenceTaint === true;
    if (mayRestOnIt || !(error instanceof ClusterError)) throw error;
    reportKinds(context, by, markSettings.fenceMachineKinds, [error]);
    return {};
  }
}

/** The Machines that name a Node, as this process has seen them. Throws ClusterError. */
async function namedRecently(context: Context, node: string): Promise<readonly MachineSeen[]> {
  const { machines, failure } = await recentSurvey(context);
  if (failure !== undefined) throw failure;
  return machines.filter(({ nodeName }) => nodeName === node);
}

/**
 * The same for a fence under way. Another process may have begun it by a mark that is newer than what this one has seen. If the
 * fence ended as one without a mark, the mark would stay, and reset the machine once more. Throws ClusterError.
 */
async function namedNow(context: Context, node: string): Promise<readonly MachineSeen[]> {
  const known = await namedRecently(context, node).catch(() => []);
  if (known.length > 0) return known;
  await surveyNow(context);
  return namedRecently(context, node);
}

async function readMachine(
  context: Context,
  { resource, namespace, name }: MachineSeen,
  malformed: Malformed[],
): Promise<readonly MachineSeen[]> {
  const object = await find(context.cluster, resource, { namespace, name });
  const machine = object && parseMachine(resource, object, markOf(context), malformed);
  return machine === undefined ? [] : [machine];
}
