/** Processes that were started with other files than are expected now get a phase, besides what a person has asked for. */

import { type Malformed, read } from "../../shared/annotations/entry.ts";
import { restartMode } from "../../shared/annotations/restart.ts";
import { mapLimit } from "../../shared/base/map-limit.ts";
import type { Context } from "../../shared/contract/context.ts";
import { take, type Verdict, wait } from "../../shared/contract/verdict.ts";
import { eventReasons } from "../../shared/events/reasons.ts";
import { recordOnce } from "../../shared/events/recorder.ts";
import { ofStatefulSets, type Zone } from "../../shared/groups/zones.ts";
import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import type { ClaimingFunction } from "../../shared/reconcile/reconcile-claims.ts";
import type { GroupObservation } from "../../shared/transaction/observe-group.ts";
import type { GroupKey, StatefulSet } from "../../shared/workloads/statefulsets.ts";
import { askProcesses, startedWith } from "../ask-processes.ts";
import type { ManagerStatus } from "../calls.ts";
import { isOpenRestart } from "../claims.ts";
import type { RestartSnapshot, RestartTarget } from "../decide.ts";
import { isNote, togetherGuard } from "../decide-files.ts";
import { isWaitingForFiles } from "../decide-mark.ts";
import { filesOf, isEmpty, isRefused, knownSettings, noteToWrite, readSecrets } from "../files.ts";
import { type DriftDecision, type DriftZone, decideDrift, decideFill, rolloutGuard } from "./decide-drift.ts";
import { blockedByOutsiders } from "./decide-outsiders.ts";
import type { FilesBefore } from "./decide-settings.ts";
import { readSettings } from "./settings.ts";

type Restarting = ClaimingFunction<RestartSnapshot, RestartTarget>;

interface DriftOfGroup extends DriftDecision {
  readonly fills: ReturnType<typeof decideFill>;
  readonly known: readonly DriftZone[];
  /** What the processes of StatefulSets run with whose files are unusable. */
  readonly before: readonly FilesBefore[];
  /** The files of a StatefulSet that cannot be read or written: a person must mend that. */
  readonly unusable?: Blocked | undefined;
}

interface WithDrift extends RestartSnapshot {
  readonly drift?: DriftOfGroup | undefined;
}

/** How soon to read Secrets again, in milliseconds: no event reports them. */
const readAgainMs = 10_000;
const askedAtOnce = 8;

/** The same function, which asks for restarts by itself where files differ. */
export function withDrift(base: Restarting): ClaimingFunction<WithDrift, RestartTarget> {
  const { ask } = base;
  return {
    ...base,
    ...(ask && { ask: (context, observed, snapshot) => ask(context, observed, snapshot) }),
    // After the base: what it copies is never newer than what decides here.
    async observe(observed, context) {
      const snapshot = await base.observe(observed, context, undefined);
      return { ...snapshot, drift: await observeDrift(context, observed) };
    },
    decide: (snapshot) => fillFirst(base.decide(snapshot), snapshot.drift),
  };
}

/** Nothing waits for files that no process is to restart for, and no phase is written for them. */
function fillFirst(verdict: Verdict<RestartTarget>, drift: WithDrift["drift"]): Verdict<RestartTarget> {
  const { fills = [] } = drift ?? {};
  const isIdle = verdict.kind === "wait" || verdict.targets.length === 0;
  if (fills.length > 0 && isIdle) {
    const isNoteAlone = fills.every(({ copy }) => isNote(copy));
    const files = "files are mounted for which no process restarts";
    return take(fills, isNoteAlone ? "the settings of mounted files are noted" : files);
  }
  return decideBoth(unlessApart(verdict, drift), drift);
}

/** No restart of some pods begins that another one of the group would be apart from. */
function unlessApart(verdict: Verdict<RestartTarget>, drift: WithDrift["drift"]): Verdict<RestartTarget> {
  const apart = drift && blockedByOutsiders(drift.known, beginningIn(verdict), drift.before);
  return apart === undefined ? verdict : wait(apart.guard, apart.message);
}

/**
 * Phases for files that are expected no more go before anything begins. A pod that is to restart with the others gets its phase
 * before these stop: they could not join it while it runs with the old files. For the same reason they wait for all Secrets.
 */
function decideBoth(verdict: Verdict<RestartTarget>, drift: WithDrift["drift"]): Verdict<RestartTarget> {
  if (drift === undefined) return verdict;
  const { targets, unusable, blocked = unusable } = drift;
  const isIdle = verdict.kind === "wait" || verdict.targets.length === 0;
  const isFirst = targets.some(
    ({ phase, reason }) => (reason ?? phase) === null || (phase === "schedule-coordinated" && joins(verdict)),
  );
  if (targets.length > 0 && (isIdle || isFirst))
    return take(targets, "phases follow the expected files", { zone: targets[0]?.statefulSet.name ?? "" });
  // A rollout ends without a person.
  const forPerson = blocked?.guard === rolloutGuard ? undefined : blocked;
  if (forPerson !== undefined && verdict.kind === "wait") return waitForBoth(verdict, forPerson);
  const isDisputed = blocked !== undefined && dependsOnOthers(verdict);
  if (!isDisputed && (verdict.kind === "wait" || verdict.targets.length > 0)) return verdict;
  const requeueAfterMs = Math.min(readAgainMs, verdict.requeueAfterMs ?? readAgainMs);
  return blocked ? wait(blocked.guard, blocked.message, { requeueAfterMs }) : { ...verdict, requeueAfterMs };
}

/** A pod that waits may do so because another one is down whose files cannot reach it: a person must read of these. */
function waitForBoth(verdict: Extract<Verdict<RestartTarget>, { kind: "wait" }>, { guard, message }: Blocked) {
  if (verdict.guard === guard) return verdict;
  const requeueAfterMs = Math.min(readAgainMs, verdict.requeueAfterMs ?? readAgainMs);
  return wait(guard, `${message}; besides, ${verdict.message}`, { requeueAfterMs });
}

/** What keeps Sluice from a restart of all also keeps a pod that may not start alone. */
function dependsOnOthers(verdict: Verdict<RestartTarget>): boolean {
  return joins(verdict) || (verdict.kind === "wait" && verdict.guard === togetherGuard);
}

/** The uids of the pods whose restart together begins. */
function beginningIn(verdict: Verdict<RestartTarget>): ReadonlySet<string> {
  const targets = verdict.kind === "wait" ? [] : verdict.targets;
  const members = targets.flatMap((target) => (target.kind === "begin-together" ? target.members : []));
  return new Set(members.map(({ pod }) => pod.uid));
}

/** True where a restart of many begins, and other files have asked for it. */
function joins(verdict: Verdict<RestartTarget>): boolean {
  if (verdict.kind === "wait") return false;
  return verdict.targets.some(
    (target) => target.kind === "begin-together" && target.members.some(({ pod }) => isWaitingForFiles(pod)),
  );
}

/** Undefined while a restart is under way, and in a group whose processes have no expected files. Throws ClusterError. */
async function observeDrift(context: Context, observed: GroupObservation): Promise<WithDrift["drift"]> {
  const zones = ofStatefulSets(observed.zones);
  const named = zones.filter(
    ({ workload }) => workload.restart?.manager && workload.restart.files && !workload.deleting,
  );
  if (named.length === 0 || observed.ledger.claims.some(isOpenRestart)) return undefined;
  const read = await mapLimit(named, askedAtOnce, (zone) => readZone(context, observed.key, zone));
  const known = read.filter((one): one is DriftZone => !("guard" in one));
  const fills = decideFill(known);
  const unusable = read.filter((one): one is UnusableZone => "guard" in one);
  const before = unusable.flatMap((one) => one.before ?? []);
  const decided = decideDrift(zones, known, observed.nowMs, before);
  const [first] = unusable;
  if (first === undefined) return { ...decided, fills, known, before };
  // All must agree before they restart together. What restarts alone, such as for a mended file, waits for no other.
  const targets = decided.targets.filter(({ phase }) => phase !== "schedule-coordinated");
  return { targets, blocked: undefined, unusable: first, fills, known, before };
}

/** A StatefulSet whose files cannot be read or written, and what its processes run with. */
interface UnusableZone extends Blocked {
  /** Absent: it has no pods, or one of its Secrets cannot be read. */
  readonly before?: FilesBefore;
}

async function readZone(context: Context, key: GroupKey, zone: Zone<StatefulSet>): Promise<DriftZone | UnusableZone> {
  const { workload } = zone;
  const secrets = await readSecrets(context, workload);
  if ("guard" in secrets) return secrets;
  const { expected, mounted } = secrets;
  let asked: ReturnType<typeof askProcesses> | undefined;
  const ask = () => (asked ??= askProcesses(context, workload, zone.pods));
  const files = await filesOf(context, key, workload, { ...secrets, ask });
  const [settings, now] = [readSettings(expected.data), readSettings(mounted.data)];
  const known = await ask();
  const [unknownMode, unknownNote]: [Malformed[], Malformed[]] = [[], []];
  const mode = read(restartMode, expected.metadata, unknownMode);
  const noted = knownSettings(mounted, unknownNote);
  const before = { mounted: "unreadable" in now ? undefined : now, noted, started: startedWith(known) };
  const unusable = (blocked: Blocked) => (zone.pods.length === 0 ? blocked : { ...blocked, before });
  if (files.kind === "blocked") return unusable(files.blocked);
  if ("unreadable" in settings) return unusable({ guard: "restart-config-unreadable", message: settings.unreadable });
  await reportMalformed(context, key, workload, { name: expected.metadata.name, malformed: unknownMode });
  await reportMalformed(context, key, workload, { name: mounted.metadata.name, malformed: unknownNote });
  const note = noteToWrite(mounted);
  return {
    ...{ zone, sum: files.sum, mode: unknownMode.length > 0 ? "by-hand" : mode },
    ...{ expected: settings, ...before, ...processesOf(known) },
    isBlockedAlone: files.together !== undefined,
    note: note !== undefined && isRefused(context, key, note) ? undefined : note,
    ...(files.kind === "differs" ? { fill: files.copy, isEmpty: isEmpty(mounted) } : {}),
  };
}

async function reportMalformed(
  context: Context,
  key: GroupKey,
  workload: StatefulSet,
  { name, malformed }: { readonly name: string; readonly malformed: readonly Malformed[] },
): Promise<void> {
  for (const { message } of malformed)
    await recordOnce(context, "advance-process-restart", key, {
      about: { resource: "statefulsets", ...workload },
      ...{ type: "Warning", reason: eventReasons.malformed, message: `Secret ${name}: ${message}`, identity: message },
    });
}

function processesOf(known: readonly ManagerStatus[]): Pick<DriftZone, "running" | "stopped" | "down"> {
  const running = known.flatMap(({ podUid, runningSum }) =>
    runningSum === undefined ? [] : [[podUid, runningSum] as const],
  );
  const stopped = known.filter(({ state }) => state === "stopped" || state === "killed").map(({ podUid }) => podUid);
  const down = known.filter(({ processId }) => processId === undefined).map(({ podUid }) => podUid);
  return { running: new Map(running), stopped: new Set(stopped), down: new Set(down) };
}
