/** What needs a person. Pure. */
import { hold } from "../shared/annotations/suspension.ts";
import { explainGuard, fillTodo, type Guard, type Guards } from "../shared/base/guards.ts";
import type { PersonEntry } from "../shared/contract/status.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { describeClaim, dueMs, endsOf, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import type { RecordedVerdict } from "../shared/ledger/reservation.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { isStatefulSet } from "../shared/workloads/statefulsets.ts";
import { splitGuard } from "./decide-evictions.ts";
import { isDone, lastReadyMs } from "./decide-group.ts";
import { decideRestarts } from "./decide-restarts.ts";
import type { GroupSnapshot, StatusSnapshot } from "./snapshot.ts";
import { formatTime } from "./times.ts";

/** From when on each reason counts, in milliseconds. Shorter waits end by the next reconcile, or by another client's write. */
const personAfterMs = 60_000;
const noProgressAfterMs = 30 * 60_000;
const stuckAfterMs = 5 * 60_000;
const neverForMs = 60 * 60_000;
const removalNearMs = 24 * 60 * 60_000;
const certificateNearMs = 7 * 24 * 60 * 60_000;

const stuckTodo: Pick<Guard, "todo"> = { todo: "kubectl describe pod -n {namespace} {pod}" };
const volumeTodo: Pick<Guard, "todo"> = { todo: `kubectl annotate pvc -n {namespace} {pod} ${hold.key}=true` };
const certificateTodo = "renew the certificate, or see in the log why rotate-certificate does not";
const unreadableTodo = "mend the Lease as the message describes";
const malformedTodo = "write the value that the message asks for";

export function decidePerson(snapshot: StatusSnapshot): PersonEntry[] {
  const { nowMs, guards } = snapshot;
  return [
    ...snapshot.groups.flatMap((group) => [
      ...unreadable(group),
      ...waits(group, nowMs, guards),
      ...stuck(group, nowMs),
      ...malformed(group),
      ...overdueClaims(group, nowMs),
      ...restarts(group, guards),
    ]),
    ...never(snapshot),
    ...volumesNearRemoval(snapshot),
    ...certificateEnds(snapshot),
  ];
}

function unreadable({ key, ledger }: GroupSnapshot): PersonEntry[] {
  if (ledger.kind !== "unreadable") return [];
  const { lease: object, message: sentence } = ledger;
  const guard = "ledger-unreadable";
  return [{ reason: guard, namespace: key.namespace, object, since: null, guard, sentence, todo: unreadableTodo }];
}

/** A guard that this version does not know needs no person, because a later version may have written it. */
function waits(group: GroupSnapshot, nowMs: number, guards: Readonly<Record<string, Guards>>): PersonEntry[] {
  const { key, zones, ledger } = group;
  if (ledger.kind !== "read") return [];
  const lastMs = lastReadyMs(zones) ?? 0;
  const isStill = !isDone(zones) && nowMs - lastMs >= noProgressAfterMs;
  const reasonOf = ({ ends, isChosen }: Guard, { since }: RecordedVerdict) => {
    if (ends === "person") return nowMs - since >= personAfterMs ? "guard" : undefined;
    return isStill && !isChosen && nowMs - since >= noProgressAfterMs ? "no-progress" : undefined;
  };
  return Object.entries(ledger.verdicts).flatMap(([name, verdict]) => {
    const { guard, zone, sentence, since } = verdict;
    const known = guards[name] ?? {};
    const found = Object.hasOwn(known, guard) ? known[guard] : undefined;
    if (found === undefined || Object.hasOwn(doneGuards, guard)) return [];
    const reason = reasonOf(found, verdict);
    const todo = fillTodo(found, { ...key, zone });
    const object = zone === "" ? key.group : zone;
    const { namespace } = key;
    return reason === undefined ? [] : [{ reason, namespace, object, since: formatTime(since), guard, sentence, todo }];
  });
}

/** Pods that are down for a reason that only another revision ends. */
function stuck({ key, zones, stuckSinceMs }: GroupSnapshot, nowMs: number): PersonEntry[] {
  return zones.flatMap(({ workload, pods }) =>
    pods.flatMap((pod): PersonEntry[] => {
      const sinceMs = stuckSinceMs.get(pod.uid);
      if (pod.stuck === undefined || sinceMs === undefined || nowMs - sinceMs < stuckAfterMs) return [];
      const where = isStatefulSet(workload) ? ` at revision ${pod.revision ?? "unknown"}` : "";
      const sentence = `${pod.name} is in ${pod.stuck}${where}, which only another revision ends`;
      const todo = fillTodo(stuckTodo, { ...key, zone: workload.name, pod: pod.name });
      const rest = { namespace: key.namespace, object: pod.name, since: formatTime(sinceMs), guard: null };
      return [{ reason: "pod-stuck", ...rest, sentence, todo }];
    }),
  );
}

function malformed({ key: { namespace }, zones }: GroupSnapshot): PersonEntry[] {
  return zones.flatMap(({ workload }) =>
    workload.malformed.map(({ message }): PersonEntry => {
      const rest = { namespace, object: workload.name, since: null, guard: null };
      return { reason: "malformed-annotation", ...rest, sentence: message, todo: malformedTodo };
    }),
  );
}

function overdueClaims({ key: { namespace }, zones, ledger }: GroupSnapshot, nowMs: number): PersonEntry[] {
  if (ledger.kind !== "read") return [];
  const workloads = zones.map(({ workload }) => workload).filter(isStatefulSet);
  const isOverdue = (claim: KnownClaim) => {
    const workload = workloads.find(({ name }) => name === claim.zone);
    return nowMs > dueMs(claim, workload);
  };
  return ledger.claims.flatMap((claim): PersonEntry[] => {
    if (!claim.isKnown || !isOverdue(claim)) return [];
    const since = formatTime(claim.sinceMs ?? claim.stampMs);
    const [guard, sentence] = [guardOfClaim(claim), describeClaim(claim)];
    const todo = `see why it has not ended: ${endsOf(claim)}`;
    return [{ reason: "claim-overdue", namespace, object: claim.zone, since, guard, sentence, todo }];
  });
}

/** Restarts that only a person ends, unless the function that restarts processes has written that it waits for the person. */
function restarts(group: GroupSnapshot, guards: Readonly<Record<string, Guards>>): PersonEntry[] {
  const { key, ledger } = group;
  const recorded = ledger.kind === "read" ? Object.values(ledger.verdicts).map(({ guard }) => guard) : [];
  const reasons = { failed: "restart-failed", unserved: "restart-unserved" } as const;
  return decideRestarts(group, guards).flatMap(
    ({ state, zone: object, since, guard, sentence, todo }): PersonEntry[] => {
      if (state !== "failed" && state !== "unserved") return [];
      const reason = reasons[state];
      if (recorded.includes(reason)) return [];
      return [{ reason, namespace: key.namespace, object, since, guard, sentence, todo }];
    },
  );
}

/** One entry for each object, since its first Event of the last hour. */
function never({ events = [], nowMs, guards }: StatusSnapshot): PersonEntry[] {
  const guard = "never-possible";
  const entries = new Map<string, PersonEntry>();
  const known = Object.values(guards).find((one) => Object.hasOwn(one, guard));
  // Oldest first, so that the last message stands with the first time.
  for (const { namespace, object, reason, message, atMs } of events.toReversed()) {
    const { guard: found, sentence } = splitGuard(message);
    if (reason !== eventReasons.evictionRefused || found !== guard || nowMs - atMs >= neverForMs) continue;
    const path = `${namespace}/${object}`;
    const since = entries.get(path)?.since ?? formatTime(atMs);
    const { todo } = explainGuard(known, guard, { namespace, zone: object });
    entries.set(path, { reason: guard, namespace, object, since, guard, sentence, todo });
  }
  return [...entries.values()];
}

/** A volume that a user keeps or recovers has no time of its removal, and one whose removal has begun cannot be kept any more. */
function volumesNearRemoval({ volumes = [], nowMs }: StatusSnapshot): PersonEntry[] {
  return volumes.flatMap(({ namespace, name, state, suspendedMs, removableMs }): PersonEntry[] => {
    if (removableMs === undefined || removableMs - nowMs >= removalNearMs || state === "Removing") return [];
    const sentence = `the data of ${name} goes for good from ${formatTime(removableMs)} on, unless a user keeps or recovers it`;
    const todo = fillTodo(volumeTodo, { namespace, pod: name });
    const rest = { namespace, object: name, since: formatTime(suspendedMs), guard: null };
    return [{ reason: "volume-removal-near", ...rest, sentence, todo }];
  });
}

/** Certificates that last for less than six weeks are renewed later, so that of them the last sixth of their time counts. */
function certificateEnds({ certificate, nowMs }: StatusSnapshot): PersonEntry[] {
  if (certificate === undefined) return [];
  const { namespace, object, notBeforeMs, notAfterMs } = certificate;
  const nearMs = Math.min(certificateNearMs, (notAfterMs - notBeforeMs) / 6);
  if (notAfterMs - nowMs > nearMs) return [];
  const sentence = `the certificate in ${object} ends at ${formatTime(notAfterMs)}: after that no review is answered`;
  const rest = { namespace, object, since: formatTime(notAfterMs - nearMs), guard: null };
  return [{ reason: "certificate-ends", ...rest, sentence, todo: certificateTodo }];
}
