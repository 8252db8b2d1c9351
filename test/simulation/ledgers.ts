/**
 * Users who edit or delete a ledger. An edit that removes a reservation, or makes it look older, is at the user's own risk: a
 * process that relies on it may just be acting. After any other edit Sluice must permit nothing by it, and must recover.
 */
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import type { World } from "../fake-cluster/world.ts";
import { unsettledOf } from "../support/checkers/liveness.ts";
import type { Actor } from "./actor.ts";
import type { Checker } from "./checker.ts";
import type { Draw } from "./draw.ts";
import type { SeedRun } from "./seed.ts";
import { drawn } from "./users.ts";
import { neighbourGroup, type Workloads } from "./workloads.ts";

const reservations = "sluice.dev/reservations";
const settledThrough = "sluice.dev/settled-through";

type Table = Record<string, Record<string, [string, string, number]>>;

export class Ledgers implements Actor {
  readonly name = "ledgers";
  readonly disturbances;
  readonly checkers: readonly Checker[];

  constructor(run: SeedRun, workloads: Workloads) {
    const { world, namespace, group } = run;
    const names = [group, neighbourGroup].map(ledgerName);
    this.checkers = [{ invariants: ["L1"], missing: () => unsettledOf(world, namespace, names) }];
    this.disturbances = {
      editLedger: drawn(run, workloads, { first: () => edit(run) }),
      loseLedger: drawn(run, workloads, { set: () => lose(run) }),
    };
  }
}

function lose({ world, namespace, group, log }: SeedRun): void {
  const key = { namespace, name: ledgerName(group) };
  if (world.store.find("leases", key) === undefined) return;
  log("user", "deletes the ledger");
  world.store.delete("leases", key, {});
}

/** One edit of the group's ledger. */
function edit({ world, draw, namespace, group, checkers, log }: SeedRun): void {
  const key = { namespace, name: ledgerName(group) };
  const lease = world.store.find("leases", key);
  const text = lease?.metadata.annotations?.[reservations];
  if (lease === undefined || text === undefined) return;
  const kind = draw.pick(["garbage", "foreign", "later", "verdicts", "no settled-through"] as const);
  log("user", `edits the ledger: ${kind}`);
  const annotate = (annotations: Record<string, string | null>) => {
    checkers.ledgerEdited(world.store.patch("leases", key, { metadata: { annotations } }));
  };
  if (kind === "verdicts") annotate({ "sluice.dev/verdicts": "[" });
  else if (kind === "no settled-through") annotate({ [settledThrough]: null });
  else if (kind === "garbage") {
    // The old text is put back with the repair, so that nothing is lost.
    annotate({ [reservations]: draw.pick(["{", "[]", '{"a":1}']) });
    world.timeline.after(draw.between(1_000, 20_000), () => {
      const now = world.store.find("leases", key);
      if (now?.metadata.uid === lease.metadata.uid && !isTable(now.metadata.annotations?.[reservations]))
        annotate({ [reservations]: text });
    });
  } else if (isTable(text))
    annotate({ [reservations]: JSON.stringify(edited(JSON.parse(text) as Table, kind, world, draw)) });
}

/** Adds a reservation that no function has made, or moves stamps up to ten minutes ahead of the clock. */
function edited(table: Table, kind: "foreign" | "later", world: World, draw: Draw): Table {
  const nowMs = Math.round(world.timeline.nowMs());
  if (kind === "foreign") return { ...table, "group-z": { 0: ["no-such-uid", "foreign", nowMs] } };
  const laterMs = Math.round(draw.between(1_000, 600_000));
  const zones = Object.entries(table).map(([name, zone]) => {
    const later = Object.entries(zone).map(([ordinal, [uid, by, stampMs]]) => [ordinal, [uid, by, stampMs + laterMs]]);
    return [name, Object.fromEntries(later)];
  });
  return Object.fromEntries(zones) as Table;
}

function isTable(text: string | undefined): boolean {
  if (text === undefined) return true;
  try {
    const table: unknown = JSON.parse(text);
    return (
      typeof table === "object" &&
      table !== null &&
      !Array.isArray(table) &&
      Object.values(table).every((zone) => typeof zone === "object")
    );
  } catch {
    return false;
  }
}
