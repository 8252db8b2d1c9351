/** What every test on the real control plane needs: a namespace with a group, an observer, and servers to end afterwards. */
import assert from "node:assert/strict";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, findAssets } from "../controlplane/controlplane.ts";
import {
  createGroup,
  type FixtureGroup,
  type GroupOptions,
  groupPods,
  type StatefulSet,
  waitForGroupReady,
} from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { addNodes, nodeLabelsOf } from "./drain.ts";
import type { Promised, Verdict } from "./history.ts";
import { Observer } from "./observer.ts";
import { Server, type ServerOptions } from "./server.ts";

/** True if the suites that need a control plane are skipped. In CI they fail instead. */
export async function skipWithoutControlPlane(): Promise<boolean> {
  if ((await findAssets()) !== undefined) return false;
  const how = "run `npm run controlplane -- --print-assets` (once, about 5 minutes), or set KUBEBUILDER_ASSETS";
  if (process.env.CI === "true") throw new Error(`there is no control plane to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs a real control plane. To get it, ${how}.\n`);
  return true;
}

export interface SceneOptions extends Omit<GroupOptions, "name" | "namespace"> {
  /** Time from a pod's creation to its readiness, in milliseconds. Default 300. */
  readonly readyAfterMs?: number;
  /** Nodes of the group's own in each zone; see `Scene.nodesOf`. Default: all pods run on node-1. */
  readonly nodesPerZone?: number;
  /** A ZoneAwarePodDisruptionBudget for all pods of the group, without its selector. The CRD must exist. */
  readonly zoneBudget?: ZoneBudgetSpec;
}

export interface ZoneBudgetSpec {
  readonly maxUnavailable: number;
  /** Its first capturing group is the partition. */
  readonly podNamePartitionRegex?: string;
}

/** The fields of a Kubernetes Event that tests read. */
export interface EventObject {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly involvedObject: { readonly kind: string; readonly name: string };
}

/** A request that Sluice made. */
export interface Asked {
  /** For example `sluice/VERSION (FUNCTION)`. */
  readonly userAgent: string;
  readonly verb: string;
  readonly resource: string;
  readonly code: number | undefined;
}

interface RecordedVerdict {
  readonly guard: string;
  readonly zone: string;
  readonly sentence: string;
}

const userAgent = "sluice-test-scene";

/** A group in a namespace of its own. */
export class Scene {
  readonly controlPlane: ControlPlane;
  readonly api: Api;
  readonly group: FixtureGroup;
  readonly observer: Observer;
  readonly #servers: Server[] = [];
  readonly #auditFrom: number;
  readonly #afterwards: (() => Promise<void>)[] = [];

  private constructor(
    controlPlane: ControlPlane,
    api: Api,
    group: FixtureGroup,
    observer: Observer,
    auditFrom: number,
  ) {
    this.controlPlane = controlPlane;
    this.api = api;
    this.group = group;
    this.observer = observer;
    this.#auditFrom = auditFrom;
  }

  /** Resolves when all pods of the group are ready and the observer has seen them. */
  static async set(controlPlane: ControlPlane, name: string, options: SceneOptions = {}): Promise<Scene> {
    const auditFrom = await auditPosition(controlPlane.auditLog);
    const podAnnotations = {
      [ANNOTATIONS.readyAfterMs]: String(options.readyAfterMs ?? 300),
      ...options.podAnnotations,
    };
    const nodes = options.nodesPerZone === undefined ? {} : { nodeLabels: nodeLabelsOf(name) };
    const group = await createGroup(controlPlane, { ...options, ...nodes, podAnnotations, name, namespace: name });
    const api = await Api.open(controlPlane, { userAgent });
    for (const zone of zonesOf(group)) await addNodes(api, group, zone, options.nodesPerZone ?? 0);
    const promised = options.zoneBudget && (await createZoneBudget(api, group, options.zoneBudget));
    await waitForGroupReady(controlPlane, group);
    return new Scene(controlPlane, api, group, await Observer.start(controlPlane, name, promised), auditFrom);
  }

  /** Starts a server for the group's namespace, by default as the administrator. It ends with the scene. */
  async serve(settings: Readonly<Record<string, string>> = {}, options: Partial<ServerOptions> = {}): Promise<Server> {
    const { kubeconfig } = this.controlPlane;
    const server = await Server.start({ kubeconfig, namespace: this.group.namespace, settings, ...options });
    this.#servers.push(server);
    return server;
  }

  statefulSetPath(name: string): string {
    return `/apis/apps/v1/namespaces/${this.group.namespace}/statefulsets/${name}`;
  }

  get ledgerPath(): string {
    return `/apis/coordination.k8s.io/v1/namespaces/${this.group.namespace}/leases/sluice-${this.group.name}`;
  }

  /** The rollout's verdict in the ledger; undefined if there is none. */
  async recorded(): Promise<RecordedVerdict | undefined> {
    const ledger = await this.api.get<{ metadata: { annotations?: Record<string, string> } }>(this.ledgerPath);
    const verdicts = JSON.parse(ledger.metadata.annotations?.["sluice.dev/verdicts"] ?? "{}");
    return verdicts["advance-zone-rollout"];
  }

  /** Resolves when the verdict in the ledger names the guard. */
  async waitForGuard(guard: string, timeoutMs = 30_000): Promise<RecordedVerdict> {
    return eventually(`the ledger naming ${guard}`, timeoutMs, async () => {
      const verdict = await this.recorded();
      return verdict?.guard === guard ? verdict : undefined;
    });
  }

  /** Resolves when the ledger permits: a new one does not, and tests would measure its age instead. */
  async waitForOldLedger(server: Server): Promise<void> {
    await eventually("the ledger in use", 30_000, async () =>
      (await server.metric("sluice_verdicts_total", { guard: "done" })) > 0 ? true : undefined,
    );
    await eventually("the ledger older than ten seconds", 30_000, async () => {
      const { metadata } = await this.api.get<{ metadata: { creationTimestamp: string } }>(this.ledgerPath);
      return Date.now() - Date.parse(metadata.creationTimestamp) > 12_000 ? true : undefined;
    });
  }

  /** Resolves when this many Ready pods have been deleted. */
  async waitForTakings(count: number, timeoutMs = 45_000): Promise<void> {
    await eventually(`${count} pods taken`, timeoutMs, async () =>
      this.observer.takings.length >= count ? true : undefined,
    );
  }

  /** Resolves when every pod runs the image, and every StatefulSet reports that it is done. */
  async waitForRollout(image: string, timeoutMs = 90_000, group: FixtureGroup = this.group): Promise<void> {
    await waitForGroupReady(this.controlPlane, group, { updated: true, timeoutMs });
    await eventually(`revisions recorded`, 30_000, async () => {
      const sets = await Promise.all(group.statefulSets.map((name) => this.statefulSet(name)));
      const isDone = (set: StatefulSet) => revisionsOf(set).current === revisionsOf(set).update;
      return sets.every(isDone) ? true : undefined;
    });
    const pods = await groupPods(this.controlPlane, group);
    const others = pods.filter(({ spec }) => spec.containers[0]?.image !== image);
    assert.deepEqual(
      others.map(({ metadata }) => metadata.name),
      [],
      `pods that do not run ${image}`,
    );
  }

  statefulSet(name: string): Promise<StatefulSet> {
    return this.api.get<StatefulSet>(this.statefulSetPath(name));
  }

  async events(reason: string): Promise<EventObject[]> {
    const path = `/api/v1/namespaces/${this.group.namespace}/events?fieldSelector=reason=${reason}`;
    return (await this.api.get<{ items: EventObject[] }>(path)).items;
  }

  /** Resolves to an Event of Sluice with that reason. */
  async waitForEvent(reason: string, timeoutMs = 30_000): Promise<EventObject> {
    return eventually(`an Event ${reason}`, timeoutMs, async () => (await this.events(reason))[0]);
  }

  /** The requests that Sluice made in this namespace, without watches: verb, resource and status of each. */
  async requests(from = this.#auditFrom): Promise<Asked[]> {
    return (await this.#asked(from)).filter(({ verb }) => verb !== "watch");
  }

  /** The watches that Sluice opened in this namespace. */
  async watches(from = this.#auditFrom): Promise<Asked[]> {
    return (await this.#asked(from)).filter(({ verb }) => verb === "watch");
  }

  async #asked(from: number): Promise<Asked[]> {
    const found = [];
    for await (const entry of readAudit(this.controlPlane.auditLog, { from }, () => {})) {
      const ours = entry.userAgent.startsWith("sluice/") && entry.namespace === this.group.namespace;
      if (ours) found.push(entry);
    }
    return found;
  }

  /** Names of the nodes that may run the group's pods of these zones. */
  async nodesOf(...zones: string[]): Promise<string[]> {
    const labels = Object.entries(nodeLabelsOf(this.group.name)).map(([key, value]) => `${key}=${value}`);
    const selector = encodeURIComponent([...labels, `topology.kubernetes.io/zone in (${zones.join(",")})`].join(","));
    const { items } = await this.api.get<{ items: { metadata: { name: string } }[] }>(
      `/api/v1/nodes?labelSelector=${selector}`,
    );
    return items.map(({ metadata }) => metadata.name);
  }

  /** Ends the servers, and resolves to the observer's verdict. */
  async end(): Promise<Verdict> {
    await Promise.all(this.#servers.map((server) => server.stop()));
    return this.observer.verdict();
  }

  /** Describes the state, so that a reader can see why a test failed. */
  async describe(): Promise<string> {
    const ledger = await this.api.get<{ metadata: unknown }>(this.ledgerPath).catch((error: Error) => error.message);
    const sets = await Promise.all(
      this.group.statefulSets.map((name) => this.statefulSet(name).catch(() => undefined)),
    );
    const logs = this.#servers
      .slice(-3)
      .map(({ log }) => ["a server's last lines:", ...log.slice(-15).map((line) => JSON.stringify(line))]);
    const verdict = await this.observer.verdict().catch((error: Error) => error.message);
    return [
      `ledger: ${JSON.stringify(ledger)}`,
      ...sets.map((set) => `${set?.metadata.name}: ${JSON.stringify(set?.status)}`),
      `observed: ${JSON.stringify(verdict)}`,
      ...logs.flat(),
    ].join("\n");
  }

  /** Closes something with the scene, however its play ends. */
  afterwards(close: () => Promise<void>): void {
    this.#afterwards.push(close);
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    await Promise.all(this.#afterwards.map((close) => close()));
    await this.observer.close();
    await this.api.close();
  }
}

function zonesOf({ name, statefulSets }: FixtureGroup): string[] {
  return statefulSets.map((statefulSet) => statefulSet.slice(name.length + 1));
}

/** Creates the budget. Resolves to its promise, for the observer. */
async function createZoneBudget(api: Api, group: FixtureGroup, spec: ZoneBudgetSpec): Promise<Promised> {
  const apiVersion = "rollout-operator.grafana.com/v1";
  await api.post(`/apis/${apiVersion}/namespaces/${group.namespace}/zoneawarepoddisruptionbudgets`, {
    apiVersion,
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: group.name },
    spec: { ...spec, selector: { matchLabels: { "rollout-group": group.name } } },
  });
  const { maxUnavailable, podNamePartitionRegex } = spec;
  if (podNamePartitionRegex === undefined) return { maxUnavailable };
  const pattern = new RegExp(`^${podNamePartitionRegex}$`);
  return { maxUnavailable, partitionOf: (pod) => `partition ${pattern.exec(pod)?.[1]}` };
}

function revisionsOf({ status }: StatefulSet): { current: string | undefined; update: string | undefined } {
  const { currentRevision: current, updateRevision: update } = (status ?? {}) as Record<string, string>;
  return { current, update };
}

/**
 * Sets a scene, plays it, and asserts that the observer found no fault: no pod beyond the budget, no second zone, no pod that
 * already had the wanted revision. At no moment may more pods be down than the budget allows, whatever the cause, so tests
 * that break pods stay within it. A failure prints the state.
 */
export async function play(
  controlPlane: ControlPlane,
  name: string,
  options: SceneOptions,
  work: (scene: Scene) => Promise<void>,
): Promise<Verdict> {
  return playIn(await Scene.set(controlPlane, name, options), options, work);
}

/** The same in a scene that is set already. @param options the options that it was set with */
export async function playIn(
  scene: Scene,
  options: SceneOptions,
  work: (scene: Scene) => Promise<void>,
): Promise<Verdict> {
  try {
    await work(scene);
    const verdict = await scene.end();
    assert.deepEqual(verdict.violations, []);
    const budget = options.zoneBudget?.maxUnavailable ?? (Number(options.maxUnavailable) || 1);
    for (const [share, down] of Object.entries(verdict.mostDown)) {
      assert.ok(down <= budget, `${down} pods of ${share} were down at once, where ${budget} may be`);
    }
    return verdict;
  } catch (error) {
    console.error(`how things stood in ${scene.group.name} when it failed:\n${await scene.describe()}`);
    throw error;
  } finally {
    await scene.close();
  }
}
