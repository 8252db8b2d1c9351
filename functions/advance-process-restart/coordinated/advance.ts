/** The steps of a restart of many processes: each is one write of all of its claims, and then its calls (rule R9). */

import { mapLimit } from "../../shared/base/map-limit.ts";
import type { Context } from "../../shared/contract/context.ts";
import { eventReasons } from "../../shared/events/reasons.ts";
import { recordOnce } from "../../shared/events/recorder.ts";
import { changeClaim, claimsBy, type KnownClaim } from "../../shared/ledger/claim.ts";
import { wantedMembers } from "../../shared/ledger/claim-kinds.ts";
import type { OwnClaimEnd } from "../../shared/reconcile/reconcile-claims.ts";
import { readClaimedObjects } from "../../shared/transaction/claimed-objects.ts";
import { renewClaim, writeClaims } from "../../shared/transaction/claims.ts";
import { claimStoodForMs } from "../../shared/transaction/ledger-age.ts";
import type { GroupObservation } from "../../shared/transaction/observe-group.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { GroupKey } from "../../shared/workloads/statefulsets.ts";
import { callManager, readStatus } from "../calls.ts";
import { askAllocation, flush, releaseAllocation, restrictAllocation } from "../database/allocation.ts";
import type { Answered, Database } from "../database/exchange.ts";
import { askNodes, nodeOf } from "../database/nodes.ts";
import { databaseOfClaims } from "../database/of-claims.ts";
import { restartRequeueMs } from "../decide.ts";
import { isAskedByFiles } from "../decide-mark.ts";
import { whyApart } from "../drift/decide-settings.ts";
import { noteRefused, readFiles, writeCopy } from "../files.ts";
import { name, noteWait } from "../observe.ts";
import { isChanged, show } from "../show.ts";
import { sumFor, type TogetherMember } from "./decide-member.ts";
import { decideTogether, first, type TogetherStep, type TogetherView } from "./decide-together.ts";
import { readOutsiders } from "./outsiders.ts";
import { callIn, shownTogether, stemOf, togetherPhases } from "./phases.ts";
import { anchor, showTogether } from "./show.ts";

/** So many process managers are asked at once. */
const askedAtOnce = 8;

interface JointRestart extends TogetherView {
  readonly context: Context;
  readonly observed: GroupObservation;
  readonly database: Database | undefined;
}

const stands: OwnClaimEnd = { kind: "stands", requeueAfterMs: restartRequeueMs };

/** Takes the next step of a restart of many, once for all of its claims. Throws as `openTransaction` does. */
export async function endTogether(
  context: Context,
  observed: GroupObservation,
  claim: KnownClaim,
): Promise<OwnClaimEnd> {
  const stem = stemOf(claim);
  const claims = claimsBy(observed.ledger.claims, "process", name).filter((one) => stemOf(one) === stem);
  if (first(claims).id !== claim.id) return stands;
  const restart = await readRestart(context, observed, claims);
  const step = decideTogether(restart);
  if (step.kind === "wait") {
    noteWait(context.memoryOf(observed.key), claim, step);
    return stands;
  }
  try {
    return await carryOut(restart, step);
  } catch (error) {
    if (!isChanged(error)) throw error;
    return stands;
  }
}

async function readRestart(
  context: Context,
  observed: GroupObservation,
  claims: readonly KnownClaim[],
): Promise<JointRestart> {
  const { cluster } = context;
  const { namespace } = observed.key;
  const found = await mapLimit(claims, askedAtOnce, async (claim) => ({
    claim,
    where: await readClaimedObjects(cluster, namespace, claim),
  }));
  const sets = found.map(({ where }) => where.statefulSet);
  const database = await databaseOfClaims(context, observed, sets);
  const { phase } = first(claims);
  const standing = found.flatMap(({ claim, where: { statefulSet, pods } }) =>
    statefulSet === undefined ? [] : [...pods.values()].map((pod) => ({ claim, statefulSet, pod })),
  );
  const members = await mapLimit(standing, askedAtOnce, async (one): Promise<TogetherMember> => {
    const isPreparing = phase === togetherPhases.preparing;
    // The files are read first: a report from before that read may show older ones.
    const files = isPreparing ? await readFilesOf(context, observed.key, one) : undefined;
    return { ...one, files, answer: await readStatus(context, one.statefulSet, one.pod) };
  });
  const missing = found.flatMap(({ claim, where: { statefulSet, pods } }) =>
    wantedMembers(claim, statefulSet)
      .filter(({ first: ordinal }) => !pods.has(ordinal))
      .map(() => claim.zone),
  );
  const orphans = found.flatMap(({ where: { statefulSet, pods } }) => (statefulSet ? [] : [...pods.values()]));
  return {
    ...{ context, observed, database, claims, orphan: orphans[0]?.name },
    members: await withMembership(database, phase, members),
    missing: missing[0] === undefined ? undefined : `a pod of ${missing[0]}`,
    isAnchored: found.every(({ where }) => where.isAnchored || where.statefulSet === undefined),
    ...(phase === togetherPhases.preparing && { outsiders: await readOutsiders(context, observed, claims) }),
    ...(await readRestriction(database, first(claims))),
    nowMs: cluster.serverTimeMs(),
    knownMs: claimStoodForMs(context, observed.key, first(claims)),
  };
}

function readFilesOf(
  context: Context,
  key: GroupKey,
  { statefulSet: workload, pod }: Pick<TogetherMember, "statefulSet" | "pod">,
) {
  return readFiles(context, key, { workload, pods: [pod] });
}

async function readRestriction(
  database: Database | undefined,
  claim: KnownClaim,
): Promise<{ readonly restriction?: Answered<boolean> }> {
  if (database === undefined) return {};
  if (claim.phase !== togetherPhases.restricting) return { restriction: { value: false } };
  const answered = await askAllocation(database);
  if ("unknown" in answered) return { restriction: answered };
  return { restriction: { value: answered.value.marker?.id === stemOf(claim) } };
}

async function withMembership(
  database: Database | undefined,
  phase: string,
  members: readonly TogetherMember[],
): Promise<readonly TogetherMember[]> {
  if (database === undefined || callIn(phase) !== "start") return members;
  const nodes = await askNodes(database);
  return members.map((one) => {
    const membership = "unknown" in nodes ? nodes : { value: nodeOf(one.pod, nodes.value) !== undefined };
    return { ...one, membership };
  });
}

async function carryOut(restart: JointRestart, step: Exclude<TogetherStep, { kind: "wait" }>): Promise<OwnClaimEnd> {
  if (step.kind === "show") return showAll(restart, step.pods);
  if (step.kind === "copy") return copyAll(restart, step.members);
  if (step.kind === "release") return releaseEarly(restart);
  return step.kind === "move" ? moveAll(restart, step) : end(restart, step);
}

/** The anchors are written first: a claim without an anchor could be taken for abandoned. */
async function showAll({ context, observed, claims }: JointRestart, pods: readonly Pod[]): Promise<OwnClaimEnd> {
  await showTogether(context, observed.key.namespace, claims, pods);
  return stands;
}

/** Nothing else patches a mounted Secret while a claim is open, and each patch follows a write of the claims. */
async function copyAll(restart: JointRestart, members: readonly TogetherMember[]): Promise<OwnClaimEnd> {
  const { context, observed } = restart;
  const { epoch = 1, phase } = first(restart.claims);
  const notAfterMs = await write(restart, { kind: "move", phase, epoch });
  const sets = [...new Map(members.map((one) => [one.statefulSet.name, one])).values()];
  for (const { statefulSet, files } of sets) {
    if (files?.kind !== "differs") continue;
    try {
      await writeCopy(context, statefulSet.namespace, files.copy, notAfterMs);
    } catch (error) {
      if (isChanged(error) || !(error instanceof Error) || !("code" in error)) throw error;
      noteRefused(context, observed.key, files, error as never);
    }
  }
  return { kind: "undone" };
}

type Move = Extract<TogetherStep, { kind: "move" }>;

async function moveAll(restart: JointRestart, step: Move): Promise<OwnClaimEnd> {
  const { context, observed, members, claims, database } = restart;
  const { phase, epoch, out, kill, conflicting } = step;
  // Before the write: a process that is killed in between comes here again.
  if (conflicting !== undefined) await askOnceMore(restart, conflicting);
  const deadlineMs = await write(restart, step);
  const verb = callIn(phase);
  const id = stemOf(first(claims));
  if (verb !== undefined) {
    await mapLimit(
      members.filter(({ pod }) => !out?.has(pod.name)),
      askedAtOnce,
      ({ pod, claim, statefulSet }) => {
        const sum = sumFor(claim, members, phase);
        const call = { verb: kill?.has(pod.name) ? "kill" : verb, restartId: id, epoch, sum } as const;
        return callManager(context, statefulSet, pod, call, deadlineMs);
      },
    );
  } else if (database !== undefined && phase === togetherPhases.restricting) {
    const answered = await restrictAllocation(database, id, deadlineMs);
    if ("unknown" in answered) noteUnknown(context, observed, first(claims), answered.unknown);
  } else if (database !== undefined && phase === togetherPhases.flushing) await flush(database, deadlineMs);
  return { kind: "undone" };
}

/** The files ask the members once more: a verdict tells a person why they wait, or all pods restart together. */
async function askOnceMore(
  { context, observed, claims, members }: JointRestart,
  { pod, key }: NonNullable<Move["conflicting"]>,
): Promise<void> {
  const message = `${whyApart(pod.name, key)}: the restart is withdrawn`;
  await recordOnce(context, name, observed.key, {
    about: { resource: "pods", ...pod },
    ...{ type: "Warning", reason: eventReasons.processRestartFailed, message },
    identity: `${stemOf(first(claims))} ${pod.uid}`,
  });
  const { phase } = first(claims);
  const shown = { phase: shownTogether(phase), id: stemOf(first(claims)) };
  const asked = members.map((one) => one.pod).filter(isAskedByFiles);
  await mapLimit(asked, askedAtOnce, (one) => show(context, one, shown, null));
}

function write(restart: JointRestart, step: Move): Promise<number> {
  const { context, observed, claims } = restart;
  const into = claims.map((claim) => renewed(restart, claim, step)).filter(({ members }) => members.length > 0);
  return writeClaims(context, observed, { out: claims, into });
}

/** A pod that was made anew takes the place of the one that the claim names. */
function renewed(restart: JointRestart, claim: KnownClaim, { phase, epoch, out = new Set() }: Move): KnownClaim {
  const { context, members } = restart;
  const uids: Record<string, string> = { ...claim.uids };
  const processes: Record<string, string> = { ...claim.processes };
  const gone = new Set<number>();
  for (const { pod, answer } of members.filter((one) => one.claim === claim)) {
    if (out.has(pod.name)) {
      gone.add(pod.ordinal);
      delete uids[pod.name];
      delete processes[pod.name];
    } else if (uids[pod.name] !== pod.uid && callIn(phase) !== "start" && "podUid" in answer) {
      uids[pod.name] = pod.uid;
      processes[pod.name] = answer.processId ?? "";
    }
  }
  return changeClaim(renewClaim(claim, context.cluster.serverTimeMs(), phase), {
    ...{ epoch, uids, processes, members: claim.members.filter((range) => !gone.has(range.first)) },
    // Where no member reports its files, neither claim nor call names any.
    ...(phase === togetherPhases.preparing ? {} : { sum: sumFor(claim, members, phase) }),
    ...(phase === togetherPhases.restricting ? { hold: true } : {}),
  });
}

async function releaseEarly(restart: JointRestart): Promise<OwnClaimEnd> {
  if (!(await release(restart))) return stands;
  const { context, observed, claims } = restart;
  const nowMs = context.cluster.serverTimeMs();
  const into = claims.map((claim) => changeClaim(renewClaim(claim, nowMs), { hold: false }));
  await writeClaims(context, observed, { out: claims, into });
  return { kind: "undone" };
}

/** What the restart has changed in the database is undone first. One that has failed does not wait for that. */
async function end(
  restart: JointRestart,
  { failed, message }: Extract<TogetherStep, { kind: "end" }>,
): Promise<OwnClaimEnd> {
  const { context, observed, claims, members, database } = restart;
  const { hold } = first(claims);
  // Without any pod there is no database to ask. Its marker is in no ledger then, so that it is undone when the pods are back.
  const isEmpty = observed.zones.every(({ pods }) => pods.length === 0);
  if (hold === true && !(await release(restart)) && failed.size === 0 && !isEmpty) return stands;
  const id = stemOf(first(claims));
  // The phase `failed` is written before the claims go, so that it stands whatever happens next.
  const lost = members.filter(({ pod }) => failed.has(pod.name));
  await mapLimit(lost, askedAtOnce, ({ pod }) => show(context, pod, { phase: "failed", id }));
  const lastRestartMs = database === undefined ? {} : { lastRestartMs: context.cluster.serverTimeMs() };
  await writeClaims(context, observed, { out: claims, into: [], ...lastRestartMs });
  // The ids of StatefulSets go before the phases: if this process ends in between, a pod with a phase leads the next one here.
  for (const { statefulSet } of new Map(members.map((one) => [one.claim.zone, one])).values())
    await anchor(context, statefulSet, null);
  const back = members.filter(({ pod }) => !failed.has(pod.name) && pod.restart !== undefined);
  await mapLimit(back, askedAtOnce, ({ pod }) => show(context, pod, undefined));
  await mapLimit(lost, askedAtOnce, ({ pod }) =>
    recordOnce(context, name, observed.key, {
      about: { resource: "pods", ...pod },
      ...{ type: "Warning", reason: eventReasons.processRestartFailed, message, identity: `${id} ${pod.uid}` },
    }),
  );
  return { kind: "undone" };
}

async function release({ context, observed, claims, database }: JointRestart): Promise<boolean> {
  if (database === undefined) return false;
  const released = await releaseAllocation(database, stemOf(first(claims)));
  if (!("unknown" in released)) return true;
  noteUnknown(context, observed, first(claims), released.unknown);
  return false;
}

function noteUnknown({ memoryOf }: Context, { key }: GroupObservation, claim: KnownClaim, why: string): void {
  noteWait(memoryOf(key), claim, {
    guard: "database-unknown",
    message: `a setting of the database was not changed: ${why}`,
  });
}
