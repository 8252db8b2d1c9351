/**
 * The sizes of one seed: an autoscaler that changes its mind, StatefulSets that mirror or follow, the functions that carry
 * this out, pods that are told, and the checkers.
 */
import { followReplicas } from "../../../functions/follow-replicas/function.ts";
import { prepareDelayedDownscale } from "../../../functions/prepare-delayed-downscale/function.ts";
import { releasePrepared } from "../../../functions/release-prepared/function.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import type { FunctionDefinition } from "../../../functions/shared/contract/definition.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../functions/shared/contract/reporter.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { replicaTemplate, replicaTemplates } from "../../fake-cluster/replica-template.ts";
import type { Actor } from "../actor.ts";
import type { Checker } from "../checker.ts";
import { besideOf } from "../other-operator/beside.ts";
import { startReplica } from "../replica.ts";
import type { Connection, Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { createSimulatedPods } from "../simulated-pods.ts";
import { ScalingChecker } from "./checker.ts";
import { delayPath, Ingesters, leavePath } from "./ingesters.ts";
import { SizeWebhooks } from "./size-webhooks.ts";

/** The object that sets the number of replicas. Its status gets the size of its zones, for no controller writes there. */
const template = "template";
const grafana = (name: string) => `grafana.com/${name}`;

export class Scaling implements Actor {
  readonly name = "scaling";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #ingesters: Ingesters;
  readonly #webhooks: SizeWebhooks;

  constructor(run: SeedRun) {
    const { world, draw, namespace, plan, isFaulty, violate } = run;
    this.#run = run;
    this.#webhooks = new SizeWebhooks(run);
    const { refuse = 0, rubbish = 0, silent = 0 } = plan.scaling ?? {};
    const quiet = { refuse: 0, rubbish: 0, silent: 0 };
    this.#ingesters = new Ingesters(world, draw, () => (isFaulty() ? { refuse, rubbish, silent } : quiet));
    if (plan.scaling === undefined) {
      this.roles = [];
      this.checkers = [];
      return;
    }
    const eventDriven = { watches: "events", inPeace: "any", count: 2, diesAfterWrite: true } as const;
    this.roles = [
      { ...eventDriven, name: "follower", open: (connection) => this.#open(connection, followReplicas) },
      { ...eventDriven, name: "delayer", open: (connection) => this.#open(connection, prepareDelayedDownscale) },
      { ...eventDriven, name: "releaser", open: (connection) => this.#open(connection, releasePrepared) },
      {
        name: "preparer",
        watches: "reviews",
        inPeace: "first",
        count: 2,
        diesAfterWrite: true,
        open: (connection) => this.#openWebhook(connection),
      },
    ];
    this.checkers = [
      new ScalingChecker({
        world,
        namespace,
        ingesters: this.#ingesters,
        violate,
        notifiedBefore: (set) => this.#notifiedBefore(set),
        isByHand: () => false,
        wanted: (set) => this.#wanted(set),
      }),
    ];
    const { kind } = replicaTemplate;
    world.store.define(replicaTemplate);
    world.store.create(replicaTemplates, namespace, {
      kind,
      metadata: { name: template },
      spec: { replicas: plan.replicas },
    });
  }

  #open(direct: Connection, definition: FunctionDefinition) {
    const { draw, plan, wrappers, log } = this.#run;
    const beside = besideOf(this.#run, direct);
    const noted = beside?.cluster ?? direct.cluster;
    const cluster = plan.scaling?.prepares === true ? this.#webhooks.before(noted) : noted;
    const pods = this.#podsOf(direct);
    const replica = startReplica({ ...direct, cluster }, { ...plan, draw, wrappers, log, definition, pods, beside });
    return (key: Parameters<typeof replica.trigger>[0]) => replica.trigger(key, false);
  }

  #openWebhook(connection: Connection): undefined {
    const { process, cache } = connection;
    const { log, wrappers } = this.#run;
    const beside = besideOf(this.#run, connection);
    const cluster = beside?.cluster ?? connection.cluster;
    const context: Context = {
      cluster: wrappers.cluster?.(cluster) ?? cluster,
      cache: wrappers.cache?.(cache) ?? cache,
      protocol: wrappers.protocol?.(protocol) ?? protocol,
      reporter: { ...silentReporter, conflict: () => log(process.name, "conflict on the ledger") },
      mode: "act",
      namespaces: undefined,
      memoryOf: createMemory(),
      pods: this.#podsOf(connection),
      ...beside?.context,
    };
    this.#webhooks.open(process, context, beside);
  }

  #podsOf(connection: Connection) {
    const { world, draw, plan, wrappers, onResume, isFaulty } = this.#run;
    const { lose = 0, late = 0 } = plan.scaling ?? {};
    const pods = createSimulatedPods({
      world,
      draw,
      process: connection.process,
      cluster: connection.cluster,
      faults: () => ({
        latencyMs: plan.faults.latencyMs,
        lose: isFaulty() ? lose : 0,
        late: isFaulty() ? late : 0,
        lateMs: 8_000,
      }),
      answer: this.#ingesters.answer,
      onResume,
    });
    const wrapped = wrappers.pods?.(pods) ?? pods;
    return besideOf(this.#run, connection)?.calling(wrapped) ?? wrapped;
  }

  /** Some zones mirror the template, and some follow the zone before them. */
  start(): void {
    const { world, namespace, plan, group } = this.#run;
    if (plan.scaling === undefined) return;
    const { delayMs, follows, prepares } = plan.scaling;
    const delay = {
      [grafana("rollout-delayed-downscale")]: `${delayMs / 1000}s`,
      [grafana("rollout-prepare-delayed-downscale-url")]: `http://pod${delayPath}`,
    };
    const mirrors = {
      [grafana("rollout-mirror-replicas-from-resource-name")]: template,
      [grafana("rollout-mirror-replicas-from-resource-kind")]: replicaTemplate.kind,
      [grafana("rollout-mirror-replicas-from-resource-api-version")]: "rollout-operator.grafana.com/v1",
    };
    for (const [index, set] of this.#sets().entries()) {
      const follower = { [grafana("rollout-downscale-leader")]: `${group}-a` };
      const leads = follows && index > 0 ? follower : mirrors;
      const eventDriven = {
        [grafana("prepare-downscale-http-path")]: leavePath.slice(1),
        [grafana("prepare-downscale-http-port")]: "80",
      };
      const labels = {
        [grafana("min-time-between-zones-downscale")]: "0s",
        ...(prepares ? { [grafana("prepare-downscale")]: "true" } : {}),
      };
      const annotations = { ...leads, ...(delayMs > 0 ? delay : {}), ...(prepares ? eventDriven : {}) };
      world.store.patch("statefulsets", { namespace, name: set.metadata.name }, { metadata: { annotations, labels } });
    }
  }

  begin(): void {
    this.#autoscale();
    this.#forget();
  }

  /** A user no longer wants the pods of a StatefulSet told. What was told before must be taken back all the same. */
  #forget(): void {
    const { world, draw, plan, isFaulty, log, namespace } = this.#run;
    const { forgetsMs } = plan.scaling ?? {};
    if (forgetsMs === undefined) return;
    world.timeline.after(forgetsMs * draw.between(0.1, 2), () => {
      if (!isFaulty()) return;
      const { name } = draw.pick(this.#sets()).metadata;
      log("user", `wants the pods of ${name} told no more`);
      const annotations = {
        [grafana("prepare-downscale-http-path")]: null,
        [grafana("prepare-downscale-http-port")]: null,
      };
      const labels = { [grafana("prepare-downscale")]: null };
      world.store.patch("statefulsets", { namespace, name }, { metadata: { annotations, labels } });
      this.#forget();
    });
  }

  /** The autoscaler keeps its last size, and no user tells pods any more. */
  makePeace(): void {
    if (this.#run.plan.scaling !== undefined) this.#run.log("autoscaler", `keeps to ${this.#templateReplicas()}`);
  }

  #autoscale(): void {
    const { world, draw, plan, isFaulty, log, namespace } = this.#run;
    if (plan.scaling === undefined) return;
    world.timeline.after(plan.scaling.everyMs * draw.between(0.1, 2), () => {
      if (!isFaulty()) return;
      const replicas = draw.whole(1, plan.replicas + 2);
      log("autoscaler", `wants ${replicas}`);
      world.store.patch(replicaTemplates, { namespace, name: template }, { spec: { replicas } });
      // Where Sluice does not tell pods, it does not take back what a user has told them.
      if (plan.scaling !== undefined && plan.scaling.delayMs > 0 && draw.chance(0.2)) this.#prepareByHand();
      if (plan.scaling?.prepares === true && draw.chance(0.3)) this.#scaleByHand();
      this.#autoscale();
    });
  }

  /** A user scales a zone, and Sluice sets the size back afterwards. */
  #scaleByHand(): void {
    const { draw, namespace } = this.#run;
    const set = draw.pick(this.#sets());
    const replicas = draw.whole(1, Math.max(1, (set.spec.replicas ?? 1) - 1));
    void this.#webhooks.scaleByHand({ namespace, name: set.metadata.name }, replicas);
  }

  /** A user tells a pod, or a pod comes back prepared from its disk. */
  #prepareByHand(): void {
    const { draw, log } = this.#run;
    const set = draw.pick(this.#sets());
    const name = `${set.metadata.name}-${draw.whole(0, (set.spec.replicas ?? 1) - 1)}`;
    log("user", `prepares ${name}`);
    this.#ingesters.prepareByHand(name);
  }

  #sets(): StoredStatefulSet[] {
    const { world, namespace, group } = this.#run;
    return world.store
      .list("statefulsets", { namespace })
      .items.filter(({ metadata }) => metadata.labels?.["rollout-group"] === group);
  }

  #templateReplicas(): number {
    const { world, namespace } = this.#run;
    const { spec } = world.store.get(replicaTemplates, { namespace, name: template });
    return (spec as { readonly replicas?: number }).replicas ?? 0;
  }

  #notifiedBefore({ metadata }: StoredStatefulSet): { readonly delayMs?: number; readonly leaving?: true } {
    const { plan } = this.#run;
    const isDelayed = metadata.annotations?.[grafana("rollout-delayed-downscale")] !== undefined;
    // D1's delay does not apply to users who scale by hand: these plans have one or the other.
    const isNotified =
      plan.scaling?.forgetsMs === undefined || metadata.labels?.[grafana("prepare-downscale")] === "true";
    if (plan.scaling?.prepares === true) return isNotified ? { leaving: true } : {};
    return isDelayed && plan.scaling !== undefined ? { delayMs: plan.scaling.delayMs } : {};
  }

  #wanted({ metadata }: StoredStatefulSet): number | undefined {
    return metadata.labels?.["rollout-group"] === this.#run.group ? this.#templateReplicas() : undefined;
  }
}
