/**
 * A later version of Sluice, which keeps the group's ledger in a format of its own for a while: reservations stand where this
 * version does not look. It carries the old ones over, takes a pod now and then, and puts everything back before it goes.
 *
 * It is written without the product's code, as simply as possible. When it is killed, another process of it goes on.
 */
import type { Cluster, LeaseObject } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import {
  groupLabel,
  isTerminating,
  isUp,
  revisionOf,
  setNameOf,
  wantedOrdinals,
  wantedRevision,
} from "../../support/checkers/raw.ts";
import type { Draw } from "../draw.ts";
import { repeat } from "./repeat.ts";

export const formatKey = "sluice.dev/format";
const reservationsKey = "sluice.dev/reservations";
const claimsKey = "sluice.dev/claims";
const settledKey = "sluice.dev/settled-through";
const membersKey = "sluice.dev/members-through";
/** Annotations for the reservations that it found, and for its own. */
const newerReservationsKey = "sluice.dev/held";
const takenKey = "sluice.dev/taken";
const everyMs = 3_000;
/** Time for which another process may act on a reservation that it made before, in milliseconds. */
const actedMs = 20_000;
/** Time within which a deletion that it has sent may arrive, in milliseconds. */
const givenUpMs = 130_000;

export interface NewerOptions {
  readonly cluster: Cluster;
  readonly draw: Draw;
  readonly namespace: string;
  readonly group: string;
  readonly ledger: string;
  /** True: it takes pods. In seeds with budgets it takes none. */
  readonly takes: boolean;
  /** False once it must leave, and give the ledger back in the format that it found. */
  readonly isActive: () => boolean;
  readonly log: (what: string) => void;
}

interface Own {
  readonly pod: string;
  readonly uid: string;
}

interface Observed {
  readonly sets: readonly StoredStatefulSet[];
  /** The pods of these StatefulSets. */
  readonly pods: readonly StoredPod[];
  /** Those and the orphaned pods: a deletion on its way may still take an orphan. */
  readonly standing: readonly StoredPod[];
}

export class Newer {
  readonly #options: NewerOptions;
  /** When this process first saw the ledger in its own format, and until when it keeps it so, by its monotonic clock. */
  #sinceMs: number | undefined;
  #untilMs = 0;
  /** The pod that it last saw taken, and since when. */
  #seenOwn: { readonly text: string; readonly sinceMs: number } | undefined;

  constructor(options: NewerOptions) {
    this.#options = options;
  }

  /** Runs until its process is dead. */
  run(): Promise<void> {
    return repeat(this.#options, everyMs, () => this.#tick());
  }

  async #tick(): Promise<void> {
    const { cluster, draw, namespace, ledger, isActive } = this.#options;
    const lease = await cluster.get("leases", { namespace, name: ledger });
    const { annotations = {} } = lease.metadata;
    if ((annotations[formatKey] ?? "1") === "1") {
      this.#sinceMs = undefined;
      if (isActive() && draw.chance(0.5)) await this.#adopt(lease);
      return;
    }
    const nowMs = cluster.monotonicMs();
    this.#sinceMs ??= nowMs;
    if (this.#untilMs === 0) this.#untilMs = nowMs + draw.between(5_000, 90_000);
    const observed = await this.#observed();
    const text = annotations[takenKey];
    if (text !== undefined) {
      const own = JSON.parse(text) as Own;
      const isOver = isBack(observed, own) || this.#isGivenUp(observed, text);
      if (isOver) await this.#write(lease, { [takenKey]: null, ...this.#seen(lease, observed) });
      else await this.#repair(observed, own);
    } else if (!isActive() || nowMs > this.#untilMs) await this.#leave(lease, observed);
    else if (nowMs - this.#sinceMs > actedMs) await this.#take(lease, observed);
  }

  /** True if the pod still stands although its deletion must have arrived by now: the process that was to delete it is dead. */
  #isGivenUp({ standing }: Observed, text: string): boolean {
    const nowMs = this.#options.cluster.monotonicMs();
    if (this.#seenOwn?.text !== text) this.#seenOwn = { text, sinceMs: nowMs };
    const { uid } = JSON.parse(text) as Own;
    const pod = standing.find(({ metadata }) => metadata.uid === uid);
    return pod !== undefined && !isTerminating(pod) && nowMs - this.#seenOwn.sinceMs > givenUpMs;
  }

  /** Deletes an unready replacement of an outdated revision: that revision may be broken, and the next one mends it. */
  async #repair({ sets, pods }: Observed, { pod, uid }: Own): Promise<void> {
    const { cluster, namespace } = this.#options;
    const now = pods.find(({ metadata }) => metadata.name === pod);
    const set = sets.find(({ metadata }) => metadata.name === setNameOf(pod));
    if (now === undefined || now.metadata.uid === uid || isUp(now) || isTerminating(now)) return;
    const wanted = set && wantedRevision(set);
    if (wanted === undefined || wanted === revisionOf(now)) return;
    const { resourceVersion } = now.metadata;
    await cluster.delete("pods", { namespace, name: pod }, { uid: now.metadata.uid, resourceVersion });
  }

  /** Writes the ledger, unless another client has written or recreated it since it was read. */
  #write({ metadata }: LeaseObject, annotations: Readonly<Record<string, string | null>>): Promise<LeaseObject> {
    const { cluster, namespace, ledger } = this.#options;
    const { uid, resourceVersion } = metadata;
    return cluster.patch("leases", { namespace, name: ledger }, { metadata: { uid, resourceVersion, annotations } });
  }

  async #adopt(lease: LeaseObject): Promise<void> {
    const reserved = lease.metadata.annotations?.[reservationsKey] ?? "{}";
    await this.#write(lease, { [formatKey]: "2", [newerReservationsKey]: reserved, [reservationsKey]: null });
    this.#untilMs = 0;
    this.#options.log("keeps the ledger in a format of its own");
  }

  async #leave(lease: LeaseObject, observed: Observed): Promise<void> {
    const reserved = lease.metadata.annotations?.[newerReservationsKey] ?? "{}";
    await this.#write(lease, {
      [formatKey]: "1",
      [newerReservationsKey]: null,
      [takenKey]: null,
      [reservationsKey]: reserved,
      ...this.#seen(lease, observed),
    });
    this.#options.log("leaves the ledger in the format that it had");
  }

  /** Makes sure that others read nothing older than what this process has read (rules R5 and R8). */
  #seen({ metadata: { annotations = {} } }: LeaseObject, { sets, pods }: Observed): Record<string, string> {
    const newest = (text: string | undefined, objects: readonly { metadata: { resourceVersion: string } }[]) =>
      String(Math.max(Number(text ?? 0), ...objects.map(({ metadata }) => Number(metadata.resourceVersion))));
    return {
      [settledKey]: newest(annotations[settledKey], pods),
      [membersKey]: newest(annotations[membersKey], sets),
    };
  }

  async #observed(): Promise<Observed> {
    const { cluster, namespace, group } = this.#options;
    const { items: sets } = await cluster.list("statefulsets", { namespace });
    const { items } = await cluster.list("pods", { namespace });
    const own = (sets as StoredStatefulSet[]).filter(({ metadata }) => metadata.labels?.[groupLabel] === group);
    const names = new Set(own.map(({ metadata }) => metadata.name));
    const standing = items as StoredPod[];
    return { sets: own, pods: standing.filter(({ metadata }) => names.has(setNameOf(metadata.name))), standing };
  }

  /** Takes one pod if no process has reserved or claimed anything and all pods of the group are up. */
  async #take(lease: LeaseObject, observed: Observed): Promise<void> {
    const { sets, pods } = observed;
    const { cluster, draw, takes, namespace, log } = this.#options;
    const { annotations = {} } = lease.metadata;
    const isBlocked = (annotations[newerReservationsKey] ?? "{}") !== "{}" || (annotations[claimsKey] ?? "") !== "";
    const wanted = sets.flatMap((set) => wantedOrdinals(set).map((ordinal) => `${set.metadata.name}-${ordinal}`));
    const up = new Set(pods.filter(isUp).map(({ metadata }) => metadata.name));
    const isWhole = pods.length === up.size && wanted.every((name) => up.has(name)) && !sets.some(isTerminating);
    if (!takes || isBlocked || !isWhole || pods.length === 0 || draw.chance(0.5)) return;
    const { name, uid } = draw.pick(pods).metadata;
    await this.#write(lease, {
      [takenKey]: JSON.stringify({ pod: name, uid } satisfies Own),
      ...this.#seen(lease, observed),
    });
    log(`takes ${name}`);
    await cluster.delete("pods", { namespace, name }, { uid });
  }
}

/** True if a replacement is up, or if no StatefulSet wants one any more. */
function isBack({ sets, standing }: Observed, { pod, uid }: Own): boolean {
  const now = standing.find(({ metadata }) => metadata.name === pod);
  if (now !== undefined) return now.metadata.uid !== uid && (isUp(now) || !isWanted(sets, pod));
  // A StatefulSet that left its pods behind may be made again for them, and then it wants this pod back.
  const isLeftBehind = !sets.some(({ metadata }) => metadata.name === setNameOf(pod));
  if (isLeftBehind && standing.some(({ metadata }) => setNameOf(metadata.name) === setNameOf(pod))) return false;
  return !isWanted(sets, pod);
}

function isWanted(sets: readonly StoredStatefulSet[], pod: string): boolean {
  return sets.some((set) => wantedOrdinals(set).some((ordinal) => `${set.metadata.name}-${ordinal}` === pod));
}
