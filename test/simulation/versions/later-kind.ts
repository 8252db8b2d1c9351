/**
 * A later version of Sluice, which claims a whole zone for a purpose that this version does not know, and restarts its
 * programs. It asks for the zone as every function does, and waits while another zone is not whole.
 *
 * It is written without the product's code, as simply as possible. When it is killed, another process of it goes on.
 */
import type { Cluster, LeaseObject } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { groupLabel, isTerminating, isUp, ordinalIn, setNameOf, wantedOrdinals } from "../../support/checkers/raw.ts";
import type { Draw } from "../draw.ts";
import { repeat } from "./repeat.ts";

const claimsKey = "sluice.dev/claims";
const reservationsKey = "sluice.dev/reservations";
const settledKey = "sluice.dev/settled-through";
const formatKey = "sluice.dev/format";
const everyMs = 5_000;
/** Time within which it begins what it has claimed. */
const actWithinMs = 5_000;

export const laterKindName = "take-later";

export interface LaterKindOptions {
  readonly cluster: Cluster;
  readonly draw: Draw;
  readonly namespace: string;
  readonly group: string;
  readonly ledger: string;
  readonly isActive: () => boolean;
  /** Restarts the program of a pod, under the claim of that id. */
  readonly restart: (claim: string, name: string, uid: string, forMs: number) => void;
  readonly log: (what: string) => void;
}

interface Observed {
  readonly sets: readonly StoredStatefulSet[];
  readonly podsOf: (set: StoredStatefulSet) => readonly StoredPod[];
}

export class LaterKind {
  readonly #options: LaterKindOptions;

  constructor(options: LaterKindOptions) {
    this.#options = options;
  }

  /** Runs until its process is dead. */
  run(): Promise<void> {
    return repeat(this.#options, everyMs, () => this.#tick());
  }

  async #tick(): Promise<void> {
    const { cluster, namespace, ledger, isActive } = this.#options;
    const lease = await cluster.get("leases", { namespace, name: ledger });
    // It knows this format, and no later one.
    if ((lease.metadata.annotations?.[formatKey] ?? "1") !== "1") return;
    const lines = (lease.metadata.annotations?.[claimsKey] ?? "").split("\n").filter((line) => line !== "");
    const own = lines.find((line) => (JSON.parse(line) as { readonly by?: string }).by === laterKindName);
    const observed = await this.#observed();
    if (own !== undefined) await this.#end(lease, lines, own, observed);
    else if (isActive() && lines.length === 0) await this.#claim(lease, observed);
  }

  async #observed(): Promise<Observed> {
    const { cluster, namespace, group } = this.#options;
    const { items: sets } = await cluster.list("statefulsets", { namespace });
    const { items } = await cluster.list("pods", { namespace });
    const pods = items as StoredPod[];
    return {
      sets: (sets as StoredStatefulSet[]).filter(({ metadata }) => metadata.labels?.[groupLabel] === group),
      podsOf: (set) => pods.filter(({ metadata }) => setNameOf(metadata.name) === set.metadata.name),
    };
  }

  async #write({ metadata }: LeaseObject, lines: readonly string[], { sets, podsOf }: Observed): Promise<void> {
    const { cluster, namespace, ledger } = this.#options;
    const { uid, resourceVersion, annotations = {} } = metadata;
    const newest = Math.max(0, ...sets.flatMap(podsOf).map((pod) => Number(pod.metadata.resourceVersion)));
    const body = {
      uid,
      resourceVersion,
      annotations: {
        [claimsKey]: lines.join("\n"),
        [settledKey]: String(Math.max(Number(annotations[settledKey] ?? 0), newest)),
      },
    };
    await cluster.patch("leases", { namespace, name: ledger }, { metadata: body });
  }

  async #claim(lease: LeaseObject, observed: Observed): Promise<void> {
    const { cluster, draw, restart, log } = this.#options;
    const isFree = (lease.metadata.annotations?.[reservationsKey] ?? "{}") === "{}";
    const isWhole = observed.sets.every((set) => isZoneWhole(set, observed.podsOf(set)));
    if (!isFree || !isWhole || observed.sets.length === 0) return;
    const set = draw.pick(observed.sets);
    const id = `later-${draw.whole(1, 1e9)}`;
    const line = JSON.stringify({ id, kind: "later", zone: set.metadata.name, by: laterKindName });
    const sentMs = cluster.monotonicMs();
    await this.#write(lease, [line], observed);
    log(`claims all of ${set.metadata.name}`);
    for (const { metadata } of observed.podsOf(set)) {
      if (cluster.monotonicMs() - sentMs > actWithinMs) return;
      restart(id, metadata.name, metadata.uid, draw.between(2_000, 20_000));
      await cluster.sleep(draw.between(0, 200));
    }
  }

  async #end(lease: LeaseObject, lines: readonly string[], own: string, observed: Observed): Promise<void> {
    const { zone } = JSON.parse(own) as { readonly zone: string };
    const set = observed.sets.find(({ metadata }) => metadata.name === zone);
    if (set !== undefined && !isZoneWhole(set, observed.podsOf(set))) return;
    await this.#write(
      lease,
      lines.filter((line) => line !== own),
      observed,
    );
    this.#options.log(`ends its claim on ${zone}`);
  }
}

function isZoneWhole(set: StoredStatefulSet, pods: readonly StoredPod[]): boolean {
  const up = new Set(pods.filter(isUp).map(({ metadata }) => ordinalIn(metadata.name)));
  return !isTerminating(set) && pods.length === up.size && wantedOrdinals(set).every((ordinal) => up.has(ordinal));
}
