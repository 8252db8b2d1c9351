/**
 * One process of `advance-zone-rollout` in a fake cluster in virtual time. Tests run its reconciles, and its requests are
 * counted.
 */
import assert from "node:assert/strict";
import { advanceZoneRollout } from "../../../../functions/advance-zone-rollout/function.ts";
import type { GroupCache } from "../../../../functions/shared/cache/cache.ts";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import { createWatchCache, type WatchCache } from "../../../../functions/shared/cache/watching.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import type {
  ActReport,
  AgentsReport,
  EvidenceReport,
  FencesReport,
  ParkedReport,
  ReconcileReport,
} from "../../../../functions/shared/contract/reporter.ts";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type ClusterCall, wrapCalls, wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { type Protocol, protocol } from "../../../../functions/shared/ledger/protocol.ts";
import type { StoredLedger } from "../../../../functions/shared/ledger/reservation.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { createWorld, type GroupOptions, type World } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { unexplained } from "../../../support/explained.ts";

export const namespace = "db";
export const key: GroupKey = { namespace, group: "group" };
export const ledgerKey = { namespace, name: "sluice-group" };

export interface Call extends Omit<ClusterCall, "verb" | "writes"> {
  readonly verb: ClusterCall["verb"] | "watch";
}

/** Called just before a call is sent. An error that it throws becomes the call's answer. */
export type Interference = (call: Call) => void | Promise<void>;

export function refused(code: number, message = "no"): ClusterError {
  return new ClusterError({ code, reason: "Test", message, verb: "delete", resource: "pods" });
}

/** A cluster that records its calls. */
export function counting(cluster: Cluster, calls: Call[], interfere: () => Interference): Cluster {
  const counted = wrapCalls(cluster, async (call, send) => {
    calls.push(call);
    await interfere()(call);
    return send();
  });
  return wrapCluster(counted, {
    watch: (resource, query, options) => {
      calls.push({ verb: "watch", resource, given: [resource, query] });
      return cluster.watch(resource, query, options);
    },
  });
}

/** Lets a virtual timeline go on until a promise has settled. */
export async function played<T>(timeline: VirtualTimeline, promise: Promise<T>): Promise<T> {
  let settled = false;
  const done = () => {
    settled = true;
  };
  promise.then(done, done);
  assert.ok(await timeline.run(() => settled), "the timeline has ended, and the promise is still open");
  return promise;
}

export class Harness {
  readonly timeline = new VirtualTimeline();
  readonly world: World;
  readonly cluster: Cluster;
  readonly calls: Call[] = [];
  readonly verdicts: ReconcileReport[] = [];
  readonly acts: ActReport[] = [];
  readonly malformed: string[] = [];
  readonly problems: string[] = [];
  readonly health: string[] = [];
  readonly holds: ParkedReport[] = [];
  readonly evidence: EvidenceReport[] = [];
  /** The last report of each. */
  fences: FencesReport | undefined;
  agents: AgentsReport | undefined;
  nodeHealth: ReadonlyMap<string, number> | undefined;
  conflicts = 0;
  interfere: Interference = () => {};
  #context: Context;

  constructor(group: Partial<GroupOptions> = {}, protocolOf: (shipped: Protocol) => Protocol = (shipped) => shipped) {
    this.world = createWorld({ timeline: this.timeline });
    this.world.addGroup({ namespace, group: key.group, zones: ["a", "b"], replicas: 2, ...group });
    this.world.settle();
    this.cluster = counting(createWorldCluster(this.world), this.calls, () => this.interfere);
    this.#context = {
      cluster: this.cluster,
      cache: createListReader(this.cluster, undefined),
      protocol: protocolOf(protocol),
      reporter: {
        verdict: (report) => {
          this.verdicts.push(report);
          assert.equal(unexplained(report), undefined);
        },
        act: (report) => void this.acts.push(report),
        conflict: () => void this.conflicts++,
        problem: (_key, _by, text) => void this.problems.push(text),
        malformed: (_key, statefulSet, annotation) => void this.malformed.push(`${statefulSet} ${annotation}`),
        health: ({ product, state }) => void this.health.push(`${product} ${state}`),
        parked: (report) => void this.holds.push(report),
        evidence: (report) => void this.evidence.push(report),
        fences: (report) => {
          this.fences = report;
        },
        agents: (report) => {
          this.agents = report;
        },
        nodeHealth: (nodes) => {
          this.nodeHealth = nodes;
        },
      },
      mode: "act",
      namespaces: undefined,
      memoryOf: createMemory(),
    };
  }

  get context(): Context {
    return this.#context;
  }

  /** A process with an empty memory, and with the given differences. */
  restart(changes: Partial<Context> = {}): void {
    // A process's knowledge of the ages of ledgers belongs to its connection.
    this.#context = { ...this.#context, cluster: { ...this.cluster }, memoryOf: createMemory(), ...changes };
  }

  /** Views from watches instead of lists. */
  async watch(): Promise<WatchCache> {
    const cache = createWatchCache({
      cluster: this.cluster,
      namespaces: undefined,
      onChange: () => {},
      onTrouble: (_resource, error) => assert.fail(String(error)),
    });
    await played(this.timeline, cache.ready);
    this.use(cache);
    return cache;
  }

  use(cache: GroupCache): void {
    this.#context = { ...this.#context, cache };
  }

  /** Runs one reconcile with all its acts. */
  async run(sweep = false): Promise<ReconcileResult["requeueAfterMs"]> {
    const outcome = await played(this.timeline, advanceZoneRollout.reconcile(this.#context, key, { sweep }));
    const acted = outcome.pendingActs === undefined ? undefined : await played(this.timeline, outcome.pendingActs);
    return acted === undefined ? outcome.requeueAfterMs : Math.min(acted, outcome.requeueAfterMs ?? acted);
  }

  async goOn(ms: number): Promise<void> {
    let over = false;
    this.timeline.after(ms, () => {
      over = true;
    });
    await this.timeline.run(() => over);
  }

  /** A ledger that has existed for long enough to permit something (rule R4), and a group that wants another revision. */
  async prepare(image = "app:2"): Promise<this> {
    await this.run(true);
    await this.goOn(11_000);
    this.changeImage(image);
    await this.goOn(100);
    this.forget();
    return this;
  }

  changeImage(image: string): void {
    for (const { metadata } of this.world.store.list("statefulsets").items) this.world.changeTemplate(metadata, image);
  }

  forget(): void {
    for (const list of [this.calls, this.verdicts, this.acts]) list.length = 0;
    this.conflicts = 0;
  }

  /** The calls since {@link forget} as words, without watches. */
  get requests(): string[] {
    return this.calls.filter(({ verb }) => verb !== "watch").map(({ verb, resource }) => `${verb} ${resource}`);
  }

  count(request: string): number {
    return this.requests.filter((other) => other === request).length;
  }

  get guard(): string | undefined {
    return this.verdicts.at(-1)?.guard;
  }

  get ledger(): StoredLedger {
    return parseLedger(key, this.world.store.get("leases", ledgerKey));
  }

  /** Writes annotations to the ledger, as another process or a user would. */
  writeLedger(annotations: Readonly<Record<string, string | null>>): void {
    this.world.annotate(ledgerKey, annotations, "leases");
  }

  /** What `kubectl get events` shows: `REASON OBJECT: MESSAGE`. */
  get events(): string[] {
    return this.world.store.list("events").items.map((event) => {
      const { reason, message, involvedObject } = event as unknown as Record<string, string & { name: string }>;
      return `${reason} ${involvedObject?.name}: ${message}`;
    });
  }

  imageOf(pod: string): string | undefined {
    return this.world.store.find("pods", { namespace, name: pod })?.spec.containers[0]?.image;
  }
}
