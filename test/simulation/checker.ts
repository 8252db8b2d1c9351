/** Who decides a seed: what a checker learns of it, and the list of all that the actors have registered. */

import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { LeaseObject, ObjectKey, Preconditions, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { World } from "../fake-cluster/world.ts";
import type { SeenView } from "../support/checkers/ledger-write.ts";
import { ledgerGroupOf, type Reserved, readReservations } from "../support/checkers/raw.ts";
import type { Pasts } from "./pasts.ts";
import type { Role } from "./roles.ts";
import { decidedBy } from "./seen-view.ts";
import type { CallObserver, Process } from "./simulated-cluster.ts";
import { Written } from "./written.ts";

/** The process that a call comes from. */
export interface Caller {
  readonly process: Process;
  readonly role: Role;
  /** The view of each group that it was last handed, by `viewKey`: it may look at another one before it writes. */
  readonly views: ReadonlyMap<string, GroupView>;
}

export function viewKey({ namespace, group }: GroupKey): string {
  return `${namespace}/${group}`;
}

/** A ledger as a process has just written it. */
export interface LedgerWrite {
  readonly caller: Caller;
  readonly lease: LeaseObject;
  /** The group that it is of. */
  readonly group: string;
  readonly all: readonly Reserved[];
  /** Those that no ledger has held before. */
  readonly made: readonly Reserved[];
  /** What the view was made of that the process was last handed. */
  readonly seen: SeenView | undefined;
}

/** One who decides. Whatever it does not ask to receive, it is not told. */
export interface Checker {
  /** The ids of the invariants that it speaks up for. */
  readonly invariants: readonly string[];
  /** A deletion leaves a process. */
  onDeletionSent?(caller: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void;
  /** The API server is about to carry it out. */
  onDeletionArrived?(caller: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void;
  /** A webhook has allowed an eviction, behind a guard, and pinned it to a uid or not. */
  onAllowed?(key: ObjectKey, uid: string | undefined, guard: string): void;
  /** The API server is about to carry an eviction out, which a webhook has allowed behind a guard. */
  onEvicted?(key: ObjectKey, uid: string | undefined, guard: string): void;
  /** The API server has carried a patch out, of this body. */
  onPatched?(caller: Caller, resource: Resource, after: object, body: object): void;
  /** It has carried out a write of any kind. */
  onWritten?(caller: Caller, verb: string, resource: Resource): void;
  onLedgerWritten?(write: LedgerWrite): void;
  /** A reconcile of a group has come to a verdict, about a zone where one is named. */
  onVerdict?(caller: Caller, group: GroupKey, zone: string): void;
  /** A client that is none of these processes has written a ledger. */
  onLedgerEdited?(lease: LeaseObject): void;
  /** What keeps a world at peace from being done, as a message; undefined when nothing does. */
  missing?(): string | undefined;
}

export interface CheckersOptions {
  readonly world: World;
  readonly pasts: Pasts;
  readonly violate: (invariant: string, message: string) => void;
  readonly log: (who: string, what: string) => void;
}

/** All checkers of one seed, in the order in which they are told. */
export class Checkers {
  /** How many pods deletions and evictions have been carried out of. */
  taken = 0;
  readonly #options: CheckersOptions;
  readonly #written = new Written();
  #all: readonly Checker[] = [];

  constructor(options: CheckersOptions) {
    this.#options = options;
  }

  register(checkers: readonly Checker[]): void {
    this.#all = [...this.#all, ...checkers];
  }

  /** What learns of the calls of one process. */
  observe(caller: Caller): CallObserver {
    return {
      onDeleteSent: (_, resource, key, preconditions) => {
        for (const checker of this.#all) checker.onDeletionSent?.(caller, resource, key, preconditions);
      },
      onDeleteArrived: (_, resource, key, preconditions) => {
        if (resource === "pods") this.taken++;
        for (const checker of this.#all) checker.onDeletionArrived?.(caller, resource, key, preconditions);
      },
      onPatched: (_, resource, after, body) => {
        if (resource === "leases") this.#ledgerWritten(caller, after as LeaseObject, decidedBy.get(body));
        for (const checker of this.#all) checker.onPatched?.(caller, resource, after, body);
      },
      onWritten: (_, verb, resource) => {
        for (const checker of this.#all) checker.onWritten?.(caller, verb, resource);
      },
      log: this.#options.log,
    };
  }

  allowed(key: ObjectKey, uid: string | undefined, guard: string): void {
    for (const checker of this.#all) checker.onAllowed?.(key, uid, guard);
  }

  evicted(key: ObjectKey, uid: string | undefined, guard: string): void {
    this.taken++;
    for (const checker of this.#all) checker.onEvicted?.(key, uid, guard);
  }

  verdict(caller: Caller, group: GroupKey, zone: string): void {
    for (const checker of this.#all) checker.onVerdict?.(caller, group, zone);
  }

  ledgerEdited(lease: LeaseObject): void {
    this.#written.note(readReservations(lease as never) ?? []);
    for (const checker of this.#all) checker.onLedgerEdited?.(lease);
  }

  /** What keeps a world at peace from being done, as the first says who knows of something. */
  missing(): string | undefined {
    for (const checker of this.#all) {
      const message = checker.missing?.();
      if (message !== undefined) return message;
    }
    return undefined;
  }

  /** `decided`: the view that the write rests on; undefined: the last one that the process has read. */
  #ledgerWritten(caller: Caller, lease: LeaseObject, decided: GroupView | undefined): void {
    const { pasts, violate } = this.#options;
    const all = readReservations(lease as never);
    if (all === undefined) {
      violate("R2", `${caller.process.name} has written a ledger that cannot be read`);
      return;
    }
    const made = this.#written.made(all);
    this.#written.note(all);
    const group = ledgerGroupOf(lease as never);
    const { namespace = "" } = lease.metadata;
    const view = decided ?? caller.views.get(viewKey({ namespace, group }));
    const seen = view && pasts.seen(view, namespace);
    for (const checker of this.#all) checker.onLedgerWritten?.({ caller, lease, group, all, made, seen });
  }
}
