/** The restarts of processes inside their pods, by the claims of the ledger and by what stands on the pods. Pure. */
import { parking } from "../shared/annotations/parking.ts";
import { explainGuard, type Guards } from "../shared/base/guards.ts";
import { cut } from "../shared/base/truncate.ts";
import type { RestartStatus } from "../shared/contract/status.ts";
import type { Zone } from "../shared/groups/zones.ts";
import { describeMembers, formatMembers, type KnownClaim, namesOrdinal } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import type { RecordedVerdict } from "../shared/ledger/reservation.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { readGroup } from "../shared/workloads/group-key.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { isStatefulSet, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import { hasFailed, isOfProcess, isParked, neverBegins, neverBeginsTodo, notBegun } from "./restart-claims.ts";
import type { GroupSnapshot } from "./snapshot.ts";
import { formatTime } from "./times.ts";

/** The guard of a restart that has failed. Only the function that restarts processes has it. */
const failedGuard = "restart-failed";
/** In bytes. A zone may have a thousand ranges of pods. */
const longestPods = 100;

type Explained = Pick<RestartStatus, "guard" | "sentence" | "since" | "ends" | "todo">;

/** At most one of each state for each zone. */
export function decideRestarts(
  { key, zones, ledger }: GroupSnapshot,
  guards: Readonly<Record<string, Guards>>,
): RestartStatus[] {
  const by = Object.keys(guards).find((name) => Object.hasOwn(guards[name] ?? {}, failedGuard)) ?? "";
  const verdict = ledger.kind === "read" && Object.hasOwn(ledger.verdicts, by) ? ledger.verdicts[by] : undefined;
  const isWaiting = verdict !== undefined && !Object.hasOwn(doneGuards, verdict.guard);
  const isServed = verdict !== undefined || readGroup(key.group).kind === "labelled";
  const explain = (guard: string, zone: string) => explainGuard(guards[by], guard, { ...key, zone });
  return zones.flatMap((zone) => {
    const { name } = zone.workload;
    const { underWay, parked, failed, wanted } = restartsOf(zone);
    const waiting = isWaiting ? ofVerdict(verdict, explain(verdict.guard, name)) : silent(notBegun, null);
    const [state, why] = isServed
      ? (["waiting", waiting] as const)
      : (["unserved", silent(neverBegins(name), neverBeginsTodo)] as const);
    const sentence = hasFailed(name, podsOf(failed));
    const ofFailed = { guard: failedGuard, sentence, since: null, ...explain(failedGuard, name) };
    return [
      ...ofClaims("at work", name, underWay, explain),
      ...ofClaims("parked", name, parked, explain),
      ...ofPods("failed", name, failed, ofFailed),
      ...ofPods(state, name, wanted, why),
    ];
  });
}

/** The claims and the pods of a zone by how far their restarts are. A claim says all about the pods that it names. */
function restartsOf({ workload, pods, claims }: Zone<ZoneWorkload>) {
  const processes = claims.filter(isOfProcess);
  const free = pods.filter(({ ordinal }) => !processes.some((claim) => namesOrdinal(claim, ordinal)));
  const isAskedOfAll = isStatefulSet(workload) && workload.restart?.phaseOfAll !== undefined;
  return {
    underWay: processes.filter((claim) => !isParked(claim)),
    parked: processes.filter(isParked),
    failed: free.filter(({ restart }) => restart?.phase === "failed"),
    wanted: free.filter((pod) => isAsked(pod) || (isAskedOfAll && pod.restart?.phase === undefined)),
  };
}

function isAsked({ restart, stop }: Pod): boolean {
  const isScheduled = restart?.phase?.startsWith("schedule") === true;
  return isScheduled || (restart === undefined && stop !== undefined && parking.parse(stop) === true);
}

function ofVerdict(verdict: RecordedVerdict, explained: Pick<Explained, "ends" | "todo">): Explained {
  const { guard, sentence, since } = verdict;
  return { guard, sentence, since: formatTime(since), ...explained };
}

function silent(sentence: string, todo: string | null): Explained {
  return { guard: null, sentence, since: null, ends: null, todo };
}

function ofClaims(
  state: RestartStatus["state"],
  zone: string,
  claims: readonly KnownClaim[],
  explain: (guard: string, zone: string) => Pick<Explained, "ends" | "todo">,
): RestartStatus[] {
  const [first] = claims;
  if (first === undefined) return [];
  const guard = guardOfClaim(first);
  const pods = cut(claims.map(describeMembers).join(","), longestPods);
  const more = claims.length > 1 ? `; and ${claims.length - 1} more of ${zone}` : "";
  const since = formatTime(Math.min(...claims.map(({ sinceMs, stampMs }) => sinceMs ?? stampMs)));
  return [{ zone, pods, state, guard, sentence: `${describeClaim(first)}${more}`, since, ...explain(guard, zone) }];
}

function ofPods(state: RestartStatus["state"], zone: string, pods: readonly Pod[], why: Explained): RestartStatus[] {
  return pods.length === 0 ? [] : [{ zone, pods: podsOf(pods), state, ...why }];
}

/** Their ordinals, such as `0-4,7`. */
function podsOf(pods: readonly Pod[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const { ordinal } of pods) {
    const before = ranges.at(-1);
    if (before !== undefined && ordinal === before.last + 1) before.last = ordinal;
    else ranges.push({ first: ordinal, last: ordinal });
  }
  return cut(formatMembers(ranges), longestPods);
}
