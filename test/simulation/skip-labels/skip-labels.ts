/**
 * The owners of one seed whose pods have stop hooks: the operator that makes their StatefulSets, users who delete and stop
 * them in every way, the processes that label pods, and the checker.
 */
import { ClusterError } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject, StoredPod } from "../../fake-cluster/objects.ts";
import type { Actor } from "../actor.ts";
import type { Checker } from "../checker.ts";
import type { SkipDeed } from "../plan.ts";
import type { Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { SkipLabelChecker } from "./checker.ts";
import { Deeds } from "./deeds.ts";
import { Markers } from "./markers.ts";
import { appLabel, clusterName, controllerUid, foreign, quorum, quorumLabel, rabbitLabel } from "./owners.ts";
import { hookAnnotation, hookedNamespace as namespace, weekSeconds } from "./stop-hooks.ts";

/** Time between the reconciles of the operator, and between those of a user who removes hanging pods, in milliseconds. */
const operatorMs = 2_000;
const personMs = 20_000;

export class SkipLabels implements Actor {
  readonly name = "skip-labels";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #checker: SkipLabelChecker | undefined;
  readonly #deeds: Deeds | undefined;

  constructor(run: SeedRun) {
    this.#run = run;
    const { plan, world } = run;
    if (plan.skipLabels === undefined) {
      this.roles = [];
      this.checkers = [];
      return;
    }
    const markers = new Markers(run, ({ name }) => this.#deeds?.isRefused(name) ?? false);
    this.#checker = new SkipLabelChecker(run, markers);
    this.#deeds = new Deeds(run, this.#checker);
    this.checkers = [this.#checker];
    this.roles = [
      {
        name: "marker",
        watches: "itself",
        inPeace: "any",
        count: plan.skipLabels.markers,
        diesAfterWrite: true,
        open: (connection) => markers.open(connection),
      },
    ];
    for (const resource of ["rabbitmqclusters", "statefulsets", "namespaces", "pods"] as const)
      world.store.onChange(resource, ({ final: { metadata } }) =>
        markers.notify(resource, { namespace: metadata.namespace ?? "", name: metadata.name }),
      );
    this.#traceHistory();
    this.#operate();
  }

  start(): void {
    this.#everyMs(operatorMs, () => this.#operate());
    this.#everyMs(personMs, () => this.#takeWhatHangs());
  }

  begin(): void {
    const { plan, world, draw, isFaulty } = this.#run;
    if (plan.skipLabels === undefined) return;
    const { everyMs, deeds } = plan.skipLabels;
    const next = () =>
      world.timeline.after(everyMs * draw.between(0.1, 2), () => {
        if (!isFaulty()) return;
        if (deeds.length > 0) this.#try(() => this.#deeds?.do(draw.pick<SkipDeed>(deeds)));
        next();
      });
    next();
  }

  makePeace(): void {
    this.#deeds?.makePeace();
  }

  /** Deletes all owners after the last trouble: each must be released in time, because all of its pods know. */
  atRest(): void {
    this.#deeds?.deleteAll();
  }

  #everyMs(ms: number, act: () => void): void {
    if (this.#run.plan.skipLabels === undefined) return;
    this.#run.world.timeline.after(ms * this.#run.draw.between(0.5, 1.5), () => {
      this.#try(act);
      this.#everyMs(ms, act);
    });
  }

  #try(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      this.#run.log("user", `is refused: ${error.message}`);
    }
  }

  /** Creates what is missing: users do so as long as there are troubles, and the operator always. */
  #operate(): void {
    const { plan, world, isFaulty } = this.#run;
    const { clusters = 0, replicas = 0 } = plan.skipLabels ?? {};
    if (isFaulty() && world.store.find("namespaces", { namespace: "", name: namespace }) === undefined)
      world.store.create("namespaces", "", { metadata: { name: namespace } });
    const names = Array.from({ length: clusters }, (_, index) => clusterName(index));
    if (isFaulty()) {
      for (const name of names) this.#make("rabbitmqclusters", name, clusterBody(name));
      const own = { "sluice.dev/skip-label": quorumLabel };
      this.#make("statefulsets", quorum, setBody({ name: quorum, replicas, app: quorum, label: quorumLabel, own }));
      const bare = { name: foreign, replicas: 1, app: clusterName(0), label: rabbitLabel };
      this.#make("statefulsets", foreign, setBody(bare));
    }
    for (const name of names) this.#operateOn(name, replicas);
  }

  #operateOn(name: string, replicas: number): void {
    const { store } = this.#run.world;
    const owner: StoredObject | undefined = store.find("rabbitmqclusters", { namespace, name });
    if (owner === undefined || owner.metadata.deletionTimestamp !== undefined) return;
    const { apiVersion, kind, metadata } = owner;
    const ownerReferences = [{ apiVersion, kind, name, uid: metadata.uid, controller: true, blockOwnerDeletion: true }];
    const set = store.find("statefulsets", { namespace, name: `${name}-server` });
    if (set === undefined) {
      const body = setBody({ name: `${name}-server`, replicas, app: name, label: rabbitLabel, ownerReferences });
      this.#make("statefulsets", `${name}-server`, body);
    } else if (controllerUid(set) === undefined && set.metadata.deletionTimestamp === undefined) {
      store.patch("statefulsets", set.metadata, { metadata: { ownerReferences } });
    }
  }

  #make(resource: "rabbitmqclusters" | "statefulsets", name: string, body: object): void {
    const { store } = this.#run.world;
    if (store.find(resource, { namespace, name }) !== undefined) return;
    this.#try(() => {
      const { uid } = store.create(resource, namespace, body).metadata;
      this.#run.log("user", `makes ${name} ${uid.slice(0, 8)}`);
    });
  }

  /** A user notices pods that would hang for a week, and removes them by force. */
  #takeWhatHangs(): void {
    const { world, stopHooks, log, draw } = this.#run;
    for (const pod of world.store.list("pods", { namespace }).items) {
      if (!stopHooks.isStuck(pod) || !draw.chance(0.3)) continue;
      log("user", `forces ${pod.metadata.name} away, which would hang for a week`);
      world.store.delete("pods", pod.metadata, { gracePeriodSeconds: 0, preconditions: { uid: pod.metadata.uid } });
    }
  }

  #traceHistory(): void {
    const { world, isVerbose, log } = this.#run;
    if (!isVerbose) return;
    for (const resource of ["rabbitmqclusters", "statefulsets", "namespaces"] as const)
      world.store.onChange(resource, ({ current, final: { metadata } }) => {
        if (resource === "namespaces" || metadata.namespace === namespace) log(resource, describe(current, metadata));
      });
    world.store.onChange("pods", ({ current, final }) => {
      if (final.metadata.namespace === namespace) log("labels", describePod(current, final));
    });
  }
}

function describe(
  current: StoredObject | undefined,
  { name, uid, finalizers, deletionTimestamp, annotations }: StoredObject["metadata"],
): string {
  if (current === undefined) return `${name} ${uid.slice(0, 8)} is gone`;
  const what = deletionTimestamp === undefined ? "" : ", being deleted";
  return `${name} ${uid.slice(0, 8)} [${finalizers?.join() ?? ""}]${what} ${JSON.stringify(annotations ?? {})}`;
}

function describePod(current: StoredPod | undefined, { metadata: { name, uid, labels } }: StoredPod): string {
  const has = Object.keys(labels ?? {}).filter((key) => [rabbitLabel, quorumLabel.split("=")[0]].includes(key));
  return `${name} ${uid.slice(0, 8)} ${current === undefined ? "is gone" : `has ${has.join() || "none"}`}`;
}

function clusterBody(name: string): object {
  return {
    apiVersion: "rabbitmq.com/v1beta1",
    kind: "RabbitmqCluster",
    metadata: { name, annotations: { "sluice.dev/skip-label": rabbitLabel } },
    spec: {},
  };
}

interface SetOptions {
  readonly name: string;
  readonly replicas: number;
  /** The label that its pods share with pods of others. */
  readonly app: string;
  /** The label that its stop hooks wait for. */
  readonly label: string;
  readonly own?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
}

function setBody({ name, replicas, app, label, own = {}, ownerReferences = [] }: SetOptions): object {
  const matchLabels = { set: name };
  return {
    metadata: { name, annotations: own, ...(ownerReferences.length > 0 ? { ownerReferences } : {}) },
    spec: {
      replicas,
      serviceName: name,
      selector: { matchLabels },
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "RollingUpdate" },
      template: {
        metadata: { labels: { ...matchLabels, [appLabel]: app }, annotations: { [hookAnnotation]: label } },
        spec: { terminationGracePeriodSeconds: weekSeconds, containers: [{ name: "app", image: "app:1" }] },
      },
    },
  };
}
