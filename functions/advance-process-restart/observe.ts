/** What is read to decide which process is restarted: pods with a phase, and what their process managers report. */

import { BoundedMap } from "../shared/base/bounded-map.ts";
import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { ofStatefulSets, type Zone } from "../shared/groups/zones.ts";
import { openQuestions, withAnswers } from "../shared/health/ask-pods.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { parsePod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { readStatus } from "./calls.ts";
import type { Candidate } from "./candidate.ts";
import { isAtRest, isOpenRestart, isParkedBy } from "./claims.ts";
import { hasFailedTogether, membersOf } from "./coordinated/decide-begin.ts";
import { type Database, databaseOf } from "./database/exchange.ts";
import { readFacts } from "./database/facts.ts";
import { findLeftOver } from "./database/left-over.ts";
import { askNodes, namesElsewhere } from "./database/nodes.ts";
import { decide, inTurn, mayBeginNow, mayPark, type RestartSnapshot } from "./decide.ts";
import { byName } from "./decide-order.ts";
import { isParkingWanted, isToPark, restartParked } from "./decide-parked.ts";
import { type DatabaseAnswer, mayBeNext, type RuleGroup, waitsForRollout } from "./decide-rules.ts";
import { readFiles, waitedFor } from "./files.ts";
import { readPublication } from "./read-service.ts";
import { triggersOf } from "./trigger/observe.ts";

export const name = "advance-process-restart";

/** True for a StatefulSet whose processes this function restarts. */
export function isManaged({ restart, deleting }: StatefulSet): boolean {
  return restart !== undefined && !deleting;
}

/** What each restart under way waits for, by the memory of its group and the id of its claim. Losing it costs a message. */
const waits = new WeakMap<GroupMemory, BoundedMap<string, Blocked>>();
/** A ledger has room for fewer claims. */
const mostWaits = 1_000;

export function noteWait(memory: GroupMemory, { id }: Pick<Claim, "id">, blocked: Blocked): void {
  const known = waits.get(memory) ?? new BoundedMap(mostWaits);
  known.set(id, blocked);
  waits.set(memory, known);
}

export function lastWait(memory: GroupMemory, { id }: Pick<Claim, "id">): Blocked | undefined {
  return waits.get(memory)?.get(id);
}

/** The guards of a parked process that waits for nothing: it rests, or its pod is still to come back. */
const restGuards: ReadonlySet<string> = new Set([restartParked, "pod-missing"]);

function waitToStart(memory: GroupMemory, claims: readonly Claim[]): Blocked | undefined {
  const noted = claims.filter(isAtRest).map((claim) => lastWait(memory, claim));
  return noted.find((blocked) => blocked !== undefined && !restGuards.has(blocked.guard));
}

/** So many pods are read at once. More are read only if none of these may begin its restart, because only one may. */
const readAtOnce = 8;

/** Reads the pods anew, after the ledger (rule R21), and asks those that are to restart. Throws ClusterError. */
export async function observe(observed: GroupObservation, context: Context): Promise<RestartSnapshot> {
  const group = groupOf(observed, context);
  const { key, zones, claims } = group;
  const memory = context.memoryOf(key);
  const open = claims.find(isOpenRestart);
  if (open !== undefined) return { ...group, underWay: lastWait(memory, open), candidates: [] };
  const shown = zones.flatMap((zone) =>
    zone.pods
      .filter((pod) => (pod.restart !== undefined || isToPark(pod)) && !isParkedBy(claims, pod))
      .map((pod): Candidate => ({ zone, pod, answer: undefined })),
  );
  // Only pods that restart or are parked in their turn wait for the database.
  const isTurn = shown.some((one) => listOf(one) === "turn" || listOf(one) === "park");
  const known = { ...group, database: isTurn ? await readFacts(context, zones) : group.database };
  const [candidates, leftOver] = await Promise.all([
    readCandidates(context, known, shown),
    // The claim of a parked process excuses no marker: a late request may have restricted allocation again.
    findLeftOver(
      databaseOf(context, zones),
      memory,
      claims.filter((claim) => !isAtRest(claim)),
    ),
  ]);
  const members = membersOf(candidates);
  const gatheredMs = gatheredFor(context, key, members);
  const elsewhere = members.length === 0 ? {} : await readElsewhere(databaseOf(context, zones), zones);
  const { lastRestartMs } = observed.ledger;
  const later = {
    underWay: undefined,
    unparking: waitToStart(memory, claims),
    lastRestartMs,
    triggers: triggersOf(observed),
  };
  return { ...known, ...later, candidates, leftOver, gatheredMs, ...elsewhere };
}

/** What an observation shows, before any pod or database is asked. */
function groupOf(observed: GroupObservation, context: Context) {
  const { key, nowMs, departed, strayClaims, view, ledger } = observed;
  const zones = ofStatefulSets(observed.zones);
  const questions = openQuestions(context, observed);
  const database: DatabaseAnswer = { kind: "none" };
  return { key, nowMs, zones, claims: ledger.claims, departed, strayClaims, surroundings: view, questions, database };
}

/**
 * Names the members of the database that are no pods of the group. If the database does not answer, none is known, and all pods
 * may restart together: its silence may be the reason for the restart. Throws ClusterError.
 */
async function readElsewhere(
  database: Database | undefined,
  zones: readonly Zone<StatefulSet>[],
): Promise<Pick<RestartSnapshot, "elsewhere">> {
  const nodes = database === undefined ? undefined : await askNodes(database);
  if (nodes === undefined || "unknown" in nodes) return {};
  const pods = zones.flatMap((zone) => zone.pods);
  return { elsewhere: namesElsewhere(pods, nodes.value) };
}

/** The pods that wait to restart together, and since when by the monotonic clock. Losing it costs ten seconds. */
const gatherings = new WeakMap<GroupMemory, { readonly uids: string; readonly sinceMs: number }>();

/** For how long this process has known the same pods to wait, in milliseconds. */
function gatheredFor({ cluster, memoryOf }: Context, key: GroupKey, members: readonly Candidate[]): number {
  const memory = memoryOf(key);
  const uids = members.map(({ pod }) => pod.uid).join();
  const nowMs = cluster.monotonicMs();
  const known = gatherings.get(memory);
  if (known?.uids === uids) return nowMs - known.sinceMs;
  gatherings.set(memory, { uids, sinceMs: nowMs });
  return 0;
}

/**
 * Reads the pods that a person wants to restart now, those that have failed, and those of the turn that may be next. Throws
 * ClusterError.
 */
async function readCandidates(
  context: Context,
  group: RuleGroup,
  shown: readonly Candidate[],
): Promise<readonly Candidate[]> {
  const { park = [], turn = [], failed = [], now = [], together = [] } = Object.groupBy(shown, listOf);
  const ask = (one: Candidate) => askManager(context, group.key, one);
  const asIs = (one: Candidate) => Promise.resolve(one);
  const isWanted = ({ pod }: Candidate) => pod.restart?.phase === "schedule";
  const askWanted = (one: Candidate) => (isWanted(one) ? ask(one) : asIs(one));
  const mayBegin = (one: Candidate) => mayBeginNow(group, one);
  const read = await readWhile(context, now.sort(byName), askWanted, (found) => !found.some(mayBegin));
  if (read.some(mayBegin)) return read;
  const isTogether = together.length > 0;
  const joint = isTogether ? [...together, ...failed.filter(hasFailedTogether)] : [];
  if (isTogether) return [...read, ...(await readWhile(context, joint.sort(byName), ask, () => true))];
  const { mendable = [], others = [] } = Object.groupBy(failed, (one) =>
    one.zone.workload.restart?.files === undefined && !hasFailedTogether(one) ? "others" : "mendable",
  );
  read.push(...(await readWhile(context, mendable.sort(byName), ask, () => true)));
  read.push(...(await readWhile(context, park.sort(byName), ask, (found) => !found.some(mayPark))));
  const unparked = others.filter(({ pod }) => isParkingWanted(pod)).slice(0, 1);
  if (turn.length === 0) return [...read, ...(await readWhile(context, unparked, asIs, () => true))];
  const isFailed = ({ pod }: Candidate) => pod.restart?.phase === "failed";
  read.push(...(await readWhile(context, others, asIs, (found) => !found.some(isFailed))));
  const ofTurn = (candidates: readonly Candidate[]) => inTurn({ ...group, candidates });
  const isBehindRollout = (found: readonly Candidate[]) => ofTurn(found).every((one) => waitsForRollout(group, one));
  const ordered = await readWhile(context, ofTurn(turn), asIs, isBehindRollout);
  const next = new Set(mayBeNext(group, ofTurn(ordered)).map(({ pod }) => pod));
  return [...read, ...(await Promise.all(ordered.map((one) => (next.has(one.pod) ? ask(one) : one))))];
}

function listOf({ pod }: Candidate): "now" | "failed" | "turn" | "together" | "park" {
  if (isToPark(pod)) return "park";
  const phase = pod.restart?.phase;
  if (phase === "schedule-coordinated") return "together";
  if (phase === "schedule-rolling") return "turn";
  return phase === "failed" ? "failed" : "now";
}

/** Reads candidates anew, in their order and in batches, until `isWanting` is false of what it has read. Throws ClusterError. */
async function readWhile(
  context: Context,
  candidates: readonly Candidate[],
  ask: (candidate: Candidate) => Promise<Candidate>,
  isWanting: (found: readonly Candidate[]) => boolean,
): Promise<Candidate[]> {
  const found: Candidate[] = [];
  for (let from = 0; from < candidates.length && isWanting(found); from += readAtOnce) {
    const some = candidates.slice(from, from + readAtOnce);
    const read = (await Promise.all(some.map((one) => readAnew(context, one)))).flat();
    found.push(...(await Promise.all(read.map(ask))));
  }
  return found;
}

/** The pod as it is now; nothing where another pod has its name. Throws ClusterError. */
async function readAnew({ cluster }: Context, candidate: Candidate): Promise<readonly Candidate[]> {
  const now = await find(cluster, "pods", candidate.pod);
  return now?.metadata.uid === candidate.pod.uid ? [{ ...candidate, pod: parsePod(now) }] : [];
}

/** Adds the files and the report of the process manager, where the StatefulSet names one. Throws ClusterError. */
async function askManager(context: Context, key: GroupKey, candidate: Candidate): Promise<Candidate> {
  const { zone, pod } = candidate;
  if (zone.workload.restart?.manager === undefined) return candidate;
  const publication = await readPublication(context.cluster, zone.workload);
  if (publication !== "all") return { ...candidate, publication };
  // The files are read first: a report from before that read may show older ones.
  const files = await readFiles(context, key, zone);
  const answer = await readStatus(context, zone.workload, pod);
  const isThere = files?.kind === "same" && "podUid" in answer && answer.mountedSum === files.sum;
  const waitedMs = files?.kind !== "same" || isThere ? 0 : waitedFor(context, key, pod.uid, files.sum);
  return { ...candidate, publication, answer, files, waitedMs };
}

/** Rule R22: the pod that restarts in its turn is asked, if its StatefulSet has a question. */
export function ask(
  context: Context,
  { key }: GroupObservation,
  snapshot: RestartSnapshot,
): Promise<RestartSnapshot> | undefined {
  if (snapshot.questions === undefined) return undefined;
  return withAnswers(context, name, key, snapshot, (then) => {
    const verdict = decide(then);
    const begun = verdict.kind === "wait" ? [] : verdict.targets.filter((target) => target.kind === "begin");
    return begun.filter(({ claim }) => claim.terms === "asked");
  });
}
