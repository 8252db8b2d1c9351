/** Invariant K1: a ledger is not collected while a process may still act on what it holds. */
import type { World } from "../../fake-cluster/world.ts";
import { isTerminating, type Reserved, readReservations } from "./raw.ts";

/** No process acts any more on a reservation that was written this long ago: an act takes five seconds, its answer ten. */
const actedMs = 20_000;
/** No process gives a reservation up sooner: until then a pod that is on its way out goes by it. */
const givenUpMs = 120_000;

interface LeaseKey {
  readonly namespace: string;
  readonly name: string;
}

type Reservation = Pick<Reserved, "uid" | "by" | "stampMs">;

export class CollectedChecker {
  readonly #world: World;
  readonly #violate: (invariant: string, message: string) => void;
  /** When each reservation was first written, in true time. */
  readonly #writtenMs = new Map<string, number>();

  constructor(world: World, violate: (invariant: string, message: string) => void) {
    this.#world = world;
    this.#violate = violate;
    world.store.onChange("leases", ({ current }) => {
      for (const reservation of current === undefined ? [] : (readReservations(current) ?? [])) {
        const identity = identify(reservation);
        this.#writtenMs.set(identity, this.#writtenMs.get(identity) ?? world.timeline.nowMs());
      }
    });
  }

  /** A deletion of a ledger by a function has reached the server, which is about to carry it out. */
  onArrived(who: string, at: LeaseKey, { resourceVersion }: { readonly resourceVersion?: string }): void {
    const lease = this.#world.store.find("leases", at);
    if (lease === undefined || lease.metadata.resourceVersion !== resourceVersion) return;
    for (const reservation of readReservations(lease) ?? []) {
      const { namespace } = at;
      const name = `${reservation.set}-${reservation.ordinal}`;
      const pod = this.#world.store.find("pods", { namespace, name });
      if (pod?.metadata.uid !== reservation.uid) continue;
      const writtenMs = this.#writtenMs.get(identify(reservation)) ?? Number.NEGATIVE_INFINITY;
      const ageMs = this.#world.timeline.nowMs() - writtenMs;
      if (ageMs >= (isTerminating(pod) ? givenUpMs : actedMs)) continue;
      const state = isTerminating(pod) ? "is on its way out" : "may go any moment";
      const message = `${who} collects ${at.name}, and ${name}, reserved ${(ageMs / 1000).toFixed(1)} s ago, ${state}`;
      this.#violate("K1", message);
    }
  }
}

function identify({ uid, by, stampMs }: Reservation): string {
  return `${uid} ${by} ${stampMs}`;
}
