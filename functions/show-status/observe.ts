/** The basis of the status: groups as the watches remember them, and their ledgers. */
import type { GroupView } from "../shared/cache/cache.ts";
import type { StatusContext } from "../shared/contract/definition.ts";
import { surveyZone } from "../shared/groups/zones.ts";
import { isSettled } from "../shared/ledger/settling.ts";
import { isOwnerGroup } from "../shared/workloads/group-key.ts";
import { podNameOf } from "../shared/workloads/pods.ts";
import { type GroupKey, groupPathOf } from "../shared/workloads/statefulsets.ts";
import { createEventLists } from "./events.ts";
import { createLedgerLists, type LedgerLists } from "./ledgers.ts";
import { Omissions } from "./omissions.ts";
import { createOwnedViews } from "./owned.ts";
import { createParkedReader } from "./parked.ts";
import type { GroupSnapshot, StatusSnapshot } from "./snapshot.ts";
import { createVolumeLists } from "./volumes.ts";

export const name = "show-status";

/** Nothing is permitted by the status, so that memory is good enough, however old it is. */
const fromMemory = { settledThrough: 0, permitSinceMs: undefined, consistent: false } as const;

export interface Observer {
  /** Reads everything anew. It never rejects: what cannot be read is left out, or stays as it was. */
  observe(): Promise<StatusSnapshot>;
  unansweredSinceMs(): number | undefined;
}

export function createObserver(context: StatusContext): Observer {
  const { cluster, guards, answeredBy } = context;
  const omissions = new Omissions(() => cluster.serverTimeMs());
  const ledgers = createLedgerLists(context, omissions);
  const events = createEventLists(context, omissions);
  const volumes = createVolumeLists(context, omissions);
  const readParked = createParkedReader(context, omissions);
  const owned = createOwnedViews(context, omissions);
  const last = new Map<string, GroupSnapshot>();
  const stuckSinceMs = new Map<string, number>();
  const put = (path: string, key: GroupKey, view: GroupView | undefined): void => {
    if (view === undefined || view.workloads.length === 0) last.delete(path);
    else last.set(path, { key, ...survey(view, ledgers.find(key), cluster.serverTimeMs()), stuckSinceMs });
  };
  const read = async (path: string, key: GroupKey): Promise<void> => {
    const part = `group ${path}`;
    try {
      const view = await context.cache.read(key, fromMemory);
      omissions.end(part);
      put(path, key, view);
    } catch (error) {
      omissions.note(part, error);
    }
  };
  const hasViews = (): boolean => {
    const part = "pods and StatefulSets";
    const trouble = context.viewsTrouble?.();
    if (trouble === undefined) omissions.end(part);
    else omissions.note(part, trouble);
    return trouble === undefined;
  };
  let lateParts: readonly string[] = [];
  /** Without the right to watch, the views are listed again and again, and are late. */
  const noteLateViews = () => {
    const refused = context.refusedWatches?.() ?? new Map<string, unknown>();
    const parts = new Map([...refused].map(([resource, error]) => [`changes of ${resource}`, error]));
    for (const part of lateParts) if (!parts.has(part)) omissions.end(part);
    for (const [part, error] of parts) omissions.note(part, error);
    lateParts = [...parts.keys()];
  };
  return {
    unansweredSinceMs: ledgers.unansweredSinceMs,
    async observe() {
      const lists = [ledgers, events, volumes].map((one) => one.refresh());
      const [parked] = await Promise.all([readParked(), ...lists]);
      const { served, ofOwners } = keysOf(context, ledgers, last);
      // Views that are not complete lack pods that are there.
      if (hasViews()) {
        noteLateViews();
        await Promise.all([...served].map(([path, key]) => read(path, key)));
      }
      await owned.refresh([...ofOwners.values()]);
      for (const [path, { key }] of last) if (isOwnerGroup(key.group) && !ofOwners.has(path)) last.delete(path);
      for (const [path, key] of ofOwners) put(path, key, owned.find(key));
      const groups = [...last.values()];
      const nowMs = cluster.serverTimeMs();
      noteStuck(stuckSinceMs, groups, nowMs);
      const unansweredSinceMs = ledgers.unansweredSinceMs();
      const listed = { events: events.newest(), volumes: volumes.all(), leftOut: omissions.all };
      const seen = { groups, parked, certificate: context.certificate?.(), ...listed };
      return { nowMs, guards, answeredBy, ...seen, unansweredSinceMs };
    },
  };
}

/**
 * The groups to read by their paths: those of StatefulSets, with all that were shown before, and those of other owners, which
 * exist as long as their ledgers do.
 */
function keysOf(
  context: StatusContext,
  ledgers: Pick<LedgerLists, "groups">,
  before: ReadonlyMap<string, Pick<GroupSnapshot, "key">>,
): Readonly<Record<"served" | "ofOwners", ReadonlyMap<string, GroupKey>>> {
  const isShown = ({ group }: GroupKey) => context.group === undefined || group === context.group;
  const isOwned = ({ group }: GroupKey) => isOwnerGroup(group);
  const byPath = (keys: readonly GroupKey[]) => new Map(keys.filter(isShown).map((key) => [groupPathOf(key), key]));
  const listed = ledgers.groups();
  const known = [...context.groups(), ...listed, ...[...before.values()].map(({ key }) => key)];
  return { served: byPath(known.filter((key) => !isOwned(key))), ofOwners: byPath(listed.filter(isOwned)) };
}

const noContents = { reservations: [], claims: [], verdicts: {} } as const;

/** The zones of a view under a ledger. Whether a reservation has settled is decided by the view alone. */
function survey(
  view: GroupView,
  ledger: ReturnType<LedgerLists["find"]>,
  nowMs: number,
): Pick<GroupSnapshot, "zones" | "ledger"> {
  const contents = typeof ledger === "object" && ledger.kind !== "unreadable" ? ledger : noContents;
  const { reservations, claims, verdicts } = contents;
  const open = reservations.filter((one) => {
    const workload = view.workloads.find(({ name: zone }) => zone === one.statefulSet);
    const where = { pod: view.pod(podNameOf(one)), workload, isMember: workload !== undefined, orphans: 0 };
    return !isSettled(one, where, nowMs);
  });
  const zones = view.workloads.map((one) => surveyZone(one, view.podsOf(one), open, nowMs, claims));
  zones.sort((one, other) => (one.workload.name < other.workload.name ? -1 : 1));
  if (typeof ledger === "string") return { zones, ledger: { kind: ledger } };
  return { zones, ledger: ledger.kind === "unreadable" ? ledger : { kind: "read", open, claims, verdicts } };
}

/** Notes new pods that only another revision mends, and forgets those that are gone or mended. */
function noteStuck(since: Map<string, number>, groups: readonly GroupSnapshot[], nowMs: number): void {
  const pods = groups.flatMap(({ zones }) => zones.flatMap((zone) => zone.pods));
  const stuck = new Map(pods.filter((pod) => pod.stuck !== undefined).map((pod) => [pod.uid, pod]));
  for (const uid of since.keys()) if (!stuck.has(uid)) since.delete(uid);
  for (const [uid, { neverReady, createdMs }] of stuck) {
    // One that was Ready before has been down since this process first saw it so, at the latest.
    if (!since.has(uid)) since.set(uid, neverReady && !Number.isNaN(createdMs) ? createdMs : nowMs);
  }
}
