/**
 * The interface of checkers, which decide whether a seed keeps the promises, and the list of all checkers that the actors
 * registered.
 */

import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { LeaseObject, ObjectKey, Preconditions, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { World } from "../fake-cluster/world.ts";
import type { SeenView } from "../support/checkers/ledger-write.ts";
import { ledgerGroupOf, type Reserved, readReservations } from "../support/checkers/raw.ts";
import { type ExplainedVerdict, unexplained } from "../support/explained.ts";
import type { Pasts } from "./pasts.ts";
import type { Role } from "./roles.ts";
import { decidedBy } from "./seen-view.ts";
import type { CallObserver, Process } from "./simulated-cluster.ts";
import { Written } from "./written.ts";

/** The process that makes a call. */
export interface Caller {
  readonly process: Process;
  readonly role: Role;
  /** The last view of each group that the process got, by `viewKey`. */
  readonly views: ReadonlyMap<string, GroupView>;
}

export function viewKey({ namespace, group }: GroupKey): string {
  return `${namespace}/${group}`;
}

/** A ledger right after a process has written it. */
export interface LedgerWrite {
  readonly caller: Caller;
  readonly lease: LeaseObject;
  /** The group whose ledger it is. */
  readonly group: string;
  readonly all: readonly Reserved[];
  /** Reservations that no ledger has held before. */
  readonly made: readonly Reserved[];
  /** The objects behind the view that the process decided by. */
  readonly seen: SeenView | undefined;
}

/** Checks some invariants. It implements only the calls that it needs. */
export interface Checker {
  /** Ids of the invariants that it checks. */
  readonly invariants: readonly string[];
  /** Called when a deletion leaves a process. */
  onDeletionSent?(caller: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void;
  /** Called when the API server is about to carry out a deletion. */
  onDeletionArrived?(caller: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void;
  /** Called when a webhook has allowed an eviction, with its guard. `uid` is the uid that the answer pins, if any. */
  onAllowed?(key: ObjectKey, uid: string | undefined, guard: string): void;
  /** Called when the API server is about to carry out an eviction that a webhook has allowed. */
  onEvicted?(key: ObjectKey, uid: string | undefined, guard: string): void;
  /** Called when the API server has carried out a patch with this body. */
  onPatched?(caller: Caller, resource: Resource, after: object, body: object): void;
  /** Called when the API server has carried out a write of any kind. */
  onWritten?(caller: Caller, verb: string, resource: Resource): void;
  onLedgerWritten?(write: LedgerWrite): void;
  /** Called when a reconcile of a group has come to a verdict, which may name a zone. */
  onVerdict?(caller: Caller, group: GroupKey, zone: string): void;
  /** Called when a client outside of these processes has written a ledger. */
  onLedgerEdited?(lease: LeaseObject): void;
  /** A message about what is still to be done after the troubles; undefined if nothing is. */
  missing?(): string | undefined;
}

export interface CheckersOptions {
  readonly world: World;
  readonly pasts: Pasts;
  readonly violate: (invariant: string, message: string) => void;
  readonly log: (who: string, what: string) => void;
}

/** All checkers of one seed, called in the order of their registration. */
export class Checkers {
  /** Number of pods that deletions and evictions have removed. */
  taken = 0;
  readonly #options: CheckersOptions;
  readonly #written = new Written();
  /** The views that a process had when a patch left it, by the body: a patch may arrive after a later view. */
  readonly #sentBy = new WeakMap<object, Caller["views"]>();
  #all: readonly Checker[] = [];

  constructor(options: CheckersOptions) {
    this.#options = options;
  }

  register(checkers: readonly Checker[]): void {
    this.#all = [...this.#all, ...checkers];
  }

  /** Observer of the calls of one process. */
  observe(caller: Caller): CallObserver {
    return {
      onDeleteSent: (_, resource, key, preconditions) => {
        for (const checker of this.#all) checker.onDeletionSent?.(caller, resource, key, preconditions);
      },
      onDeleteArrived: (_, resource, key, preconditions) => {
        if (resource === "pods") this.taken++;
        for (const checker of this.#all) checker.onDeletionArrived?.(caller, resource, key, preconditions);
      },
      onPatchSent: (_, resource, body) => {
        if (resource === "leases") this.#sentBy.set(body, new Map(caller.views));
      },
      onPatched: (_, resource, after, body) => {
        if (resource === "leases") this.#ledgerWritten(caller, after as LeaseObject, body);
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

  /** Checks that the definition of a shipped function explains the guard of its verdict or answer. */
  explained(verdict: ExplainedVerdict): void {
    const why = unexplained(verdict);
    if (why !== undefined) this.#options.violate("guards", why);
  }

  verdict(caller: Caller, group: GroupKey, zone: string): void {
    for (const checker of this.#all) checker.onVerdict?.(caller, group, zone);
  }

  ledgerEdited(lease: LeaseObject): void {
    this.#written.note(readReservations(lease as never) ?? []);
    for (const checker of this.#all) checker.onLedgerEdited?.(lease);
  }

  /** The message of the first checker that still misses something; undefined if none does. */
  missing(): string | undefined {
    for (const checker of this.#all) {
      const message = checker.missing?.();
      if (message !== undefined) return message;
    }
    return undefined;
  }

  /** A process that decides several things at the same time says which view the write rests on. */
  #ledgerWritten(caller: Caller, lease: LeaseObject, body: object): void {
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
    const view = decidedBy.get(body) ?? this.#sentBy.get(body)?.get(viewKey({ namespace, group }));
    const seen = view && pasts.seen(view, namespace);
    for (const checker of this.#all) checker.onLedgerWritten?.({ caller, lease, group, all, made, seen });
  }
}
