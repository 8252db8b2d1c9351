/**
 * The writes to a FoundationDBCluster and to its volume claims, each under the uid and the revision on which the decision
 * rests.
 */

import { formatHeld, heldGroups } from "../shared/annotations/foundationdb.ts";
import * as keys from "../shared/annotations/suspension.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import type { OtherObject } from "../shared/kubernetes/cluster.ts";
import {
  describeRefusal,
  type ObjectAttempt,
  reportWrite,
  type WriteResult,
} from "../shared/reconcile/reconcile-object.ts";
import { type PvcNews, type PvcPatch, patchPvc, recordPvcEvent, warning } from "../shared/suspension/writing.ts";
import type { ClusterStep, ClusterVerdict } from "./decide.ts";
import type { GroupEvent } from "./decide-events.ts";
import type { ProtectionChange } from "./decide-protection.ts";
import {
  type FoundationCluster,
  idOf,
  type ProcessGroupPvc,
  rawGroups,
  terminatingCondition,
} from "./foundation-cluster.ts";
import { type ClusterObservation, name, resource } from "./observe.ts";

/** One observation of a cluster, and the decision about it. */
export type ClusterAttempt = ObjectAttempt<ClusterObservation, ClusterVerdict>;

/** The most volume claims that are written at one time. */
const pvcsAtOnce = 16;

/** Throws ClusterError if the API server was not reached. */
export async function carryOut(attempt: ClusterAttempt, step: ClusterStep): Promise<WriteResult> {
  if (step.kind === "annotate") {
    const changes = step.changes.map(({ pvc, annotations }) => ({ pvc, patch: { annotations } }));
    return patchPvcs(attempt, step.kind, changes);
  }
  if (step.kind === "protect") return protect(attempt, step.changes);
  const { object } = attempt.observed;
  // If the cluster is gone, only its volume claims are decided on.
  if (object === undefined) return "changed";
  if (step.kind === "clear-status") return patchCluster(attempt, object, step.kind, {}, statusPatch(object, step.ids));
  const written = await patchCluster(attempt, object, step.kind, specPatch(object, step));
  if (written === "done") await recordChange(attempt, step);
  return written;
}

async function protect(attempt: ClusterAttempt, changes: readonly ProtectionChange[]): Promise<WriteResult> {
  const patches = changes.map(({ pvc, protection }) => ({ pvc, patch: protectionPatch(pvc, protection) }));
  const written = await patchPvcs(attempt, "protect", patches);
  if (written !== "refused") return written;
  const message = `owner-refused: ${attempt.verdict.message}; the API server refuses that`;
  await recordClusterEvent(attempt, { type: "Warning", reason: eventReasons.groupWaiting, message });
  return written;
}

function protectionPatch({ finalizers }: ProcessGroupPvc, protection: ProtectionChange["protection"]): PvcPatch {
  const others = finalizers.filter((one) => one !== keys.volumeProtection);
  return protection === "add"
    ? { labels: { [keys.protectedVolume.key]: "true" }, finalizers: [...others, keys.volumeProtection] }
    : { labels: { [keys.protectedVolume.key]: null }, finalizers: others };
}

/** Only changed fields are written, so that another writer of the spec keeps its own fields. */
function specPatch({ spec }: OtherObject, step: Extract<ClusterStep, { kind: "change-spec" }>): object {
  const { processGroupsToRemove, processGroupsToRemoveWithoutExclusion, buggify } = fieldsOf(spec) ?? {};
  const changed = {
    ...changeOf("processGroupsToRemove", processGroupsToRemove, step.toRemove),
    ...changeOf(
      "processGroupsToRemoveWithoutExclusion",
      processGroupsToRemoveWithoutExclusion,
      step.toRemoveUnexcluded,
    ),
  };
  const blocks = changeOf("blockRemoval", fieldsOf(buggify)?.blockRemoval, step.blocked);
  return {
    metadata: { annotations: { [heldGroups.key]: formatHeld(step.heldGroups) } },
    spec: { ...changed, ...(Object.keys(blocks).length === 0 ? {} : { buggify: blocks }) },
  };
}

function changeOf(field: string, before: unknown, after: readonly string[]): object {
  const known = Array.isArray(before) ? before : [];
  if (known.length === after.length && after.every((id, index) => id === known[index])) return {};
  return { [field]: after.length === 0 ? null : after };
}

/** Each field of spec 1.1 D4. If one is left, the process group would be removed again without moving its data. */
function statusPatch({ status }: OtherObject, ids: readonly string[]): object {
  const processGroups = rawGroups(status).map((raw) => {
    if (!ids.includes(idOf(raw) ?? "")) return raw;
    const {
      removalTimestamp: _removal,
      exclusionTimestamp: _exclusion,
      exclusionSkipped: _skipped,
      processGroupConditions,
      ...rest
    } = fieldsOf(raw) ?? {};
    const conditions = Array.isArray(processGroupConditions) ? processGroupConditions : [];
    return {
      ...rest,
      processGroupConditions: conditions.filter((one) => fieldsOf(one)?.type !== terminatingCondition),
    };
  });
  return { processGroups };
}

/** Of the object, or if a status is given, of the status alone. */
async function patchCluster(
  attempt: ClusterAttempt,
  object: OtherObject,
  action: string,
  change: object,
  status?: object,
): Promise<WriteResult> {
  const { context, key, verdict, notAfterMs } = attempt;
  const { uid, resourceVersion } = object.metadata;
  const { metadata = {}, ...rest } = change as { readonly metadata?: object };
  const body = { metadata: { uid, resourceVersion, ...metadata }, ...(status === undefined ? rest : { status }) };
  const options = status === undefined ? { notAfterMs } : ({ notAfterMs, subresource: "status" } as const);
  return reportWrite(
    context,
    { key, function: name, action, object: key.name, reason: verdict.message },
    () => context.cluster.patch(resource, key, body, options),
    async (error) => {
      const message = `owner-refused: ${verdict.message}; that cannot be written: ${describeRefusal(error)}`;
      context.reporter.problem(key, name, message, error);
      await recordClusterEvent(attempt, { type: "Warning", reason: eventReasons.groupWaiting, message });
    },
  );
}

interface PatchedPvc {
  readonly pvc: ProcessGroupPvc;
  readonly patch: PvcPatch;
}

/**
 * Writes all of them, some at a time. When all were tried, it throws the first error that shows that the API server was not
 * reached.
 */
async function patchPvcs(
  attempt: ClusterAttempt,
  action: string,
  changes: readonly PatchedPvc[],
): Promise<WriteResult> {
  const results = await mapLimit(changes, pvcsAtOnce, (change) => patchOne(attempt, action, change));
  return results.find((result) => result !== "done") ?? "done";
}

async function patchOne(attempt: ClusterAttempt, action: string, { pvc, patch }: PatchedPvc): Promise<WriteResult> {
  const { context, key, verdict, notAfterMs } = attempt;
  const act = { key, function: name, action, object: pvc.name, reason: verdict.message };
  const written = await reportWrite(context, act, () => patchPvc(context, pvc, patch, notAfterMs));
  // From now on its messages are also Events on the volume claim itself, because its cluster may be gone, and all Events with
  // it.
  const message = patch.annotations?.[keys.suspendMessage.key];
  if (written === "done" && typeof message === "string")
    await recordPvcEvent(context, name, key, pvc, warning(eventReasons.groupWaiting, message, message));
  return written;
}

/** An Event about the cluster, once. Resolves, never rejects. */
async function recordClusterEvent(
  { context, key, observed }: ClusterAttempt,
  event: Omit<PvcNews, "identity">,
  again = "",
): Promise<void> {
  if (observed.object === undefined) return;
  const { uid } = observed.object.metadata;
  const identity = `${uid} ${event.reason} ${event.message} ${again}`;
  await recordOnce(context, name, key, { about: { ...key, uid }, ...event, identity });
}

/** Records what a user has to do, or would be surprised by. */
export async function recordEvents(attempt: ClusterAttempt): Promise<void> {
  for (const { guard, message } of attempt.verdict.events)
    await recordClusterEvent(attempt, {
      type: "Warning",
      reason: eventReasons.groupWaiting,
      message: `${guard}: ${message}`,
    });
}

async function recordChange(
  attempt: ClusterAttempt,
  step: Extract<ClusterStep, { kind: "change-spec" }>,
): Promise<void> {
  const { cluster } = attempt.observed.snapshot;
  const again = attempt.observed.object?.metadata.resourceVersion ?? "";
  for (const { message: reason } of step.added) {
    const message = `${reason}${cluster?.usesLocalities === false ? addressesStay : ""}`;
    await recordClusterEvent(attempt, { type: "Normal", reason: eventReasons.groupHeld, message }, again);
  }
  for (const event of step.lifted) {
    await recordClusterEvent(
      attempt,
      { type: "Normal", reason: eventReasons.groupLetGo, message: event.message },
      again,
    );
    if (cluster !== undefined && isRecovered(attempt, event)) await recordRecovered(attempt, cluster, event, again);
  }
}

function isRecovered({ observed }: ClusterAttempt, { id, guard }: GroupEvent): boolean {
  if (guard !== "letting-go") return false;
  const { cluster, pvcs } = observed.snapshot;
  const heldGroup = cluster?.heldGroups.kind === "value" ? cluster.heldGroups.value[id] : undefined;
  return heldGroup?.recoveringMs !== undefined && pvcs.some(({ group }) => group === id);
}

/** Spec 1.1 D8: a new pod may get one of them. */
const addressesStay =
  "; it is excluded by its addresses, and while it is suspended a new pod that gets one of them is excluded, too";

/** Spec 1.1 D6 and D7: no function here can speak with the database. */
async function recordRecovered(
  attempt: ClusterAttempt,
  { groups, usesLocalities }: FoundationCluster,
  { id }: GroupEvent,
  again: string,
): Promise<void> {
  const addresses = groups.get(id)?.addresses ?? [];
  const excluded = usesLocalities || addresses.length === 0 ? `locality_instance_id:${id}` : addresses.join(" ");
  const message = `${id} is back, and the database excludes it still: run fdbcli --exec 'include ${excluded}'. After two hours automatic replacements take it for one that is to go. Its class may have one process too many now`;
  await recordClusterEvent(attempt, { type: "Warning", reason: eventReasons.groupRecovered, message }, again);
}
