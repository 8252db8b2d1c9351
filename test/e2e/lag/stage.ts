/** A group on a real control plane, two processes of Sluice behind proxies that lag, and users. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Api, ApiError, eventually } from "../../controlplane/api.ts";
import { writeKubeconfig } from "../../controlplane/configuration.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import {
  createGroup,
  type FixtureGroup,
  type GroupOptions,
  groupManifests,
  type StatefulSet,
  waitForGroupReady,
} from "../../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../../controlplane/kubelet.ts";
import { type Random, seededRandom } from "../../fake-cluster/random.ts";
import { evict, type Presented, registerWebhook } from "../../support/drain-webhook.ts";
import { Server } from "../../support/server.ts";
import type { Pauses } from "./controllers.ts";
import type { Lag } from "./delays.ts";
import { LaggingProxy } from "./lagging-proxy.ts";
import { ReviewProxy } from "./review-proxy.ts";
import { Witness } from "./witness.ts";

export interface StageOptions {
  readonly controlPlane: ControlPlane;
  /** What the API server trusts Sluice by. */
  readonly certificate: Presented;
  /** Of the group and its namespace. */
  readonly name: string;
  readonly seed: number;
  /** Of its controllers. */
  readonly pauses: Pauses;
}

/** A pod template, as far as users change it. */
export interface Template {
  readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly containers: readonly { readonly name: string; readonly image: string }[];
  };
}

const processes = 2;
const lag: Lag = { mostMs: 20_000, lateListsMs: 5_000 };
/** Half of the time one process learns of changes early, and acts while the other does not know the zones yet. */
const promptLag: Lag = { mostMs: 500, lateListsMs: 500 };
const lateZonesLag: Lag = { ...lag, latest: "statefulsets" };

export class Stage {
  readonly controlPlane: ControlPlane;
  readonly seed: number;
  readonly pauses: Pauses;
  readonly group: FixtureGroup;
  readonly api: Api;
  readonly witness: Witness;
  /** The acts of users, in words. */
  readonly journal: { readonly atMs: number; readonly text: string }[] = [];
  /** Answers to evictions after which a drain does not try again, although every pod is governed and may go some day. */
  readonly endedDrains: string[] = [];
  /** The acts that users still have to do when nothing is late any more. */
  afterwards: (() => Promise<void>) | undefined;
  readonly #made: GroupOptions;
  readonly #closing: (() => Promise<unknown>)[] = [];
  readonly #proxies: LaggingProxy[] = [];
  readonly #servers: Server[] = [];
  /** The templates of zones, by StatefulSet. */
  readonly #templates = new Map<string, Template>();

  private constructor(
    { controlPlane, seed, pauses }: StageOptions,
    made: GroupOptions,
    group: FixtureGroup,
    api: Api,
    witness: Witness,
  ) {
    this.controlPlane = controlPlane;
    this.seed = seed;
    this.pauses = pauses;
    this.#made = made;
    this.group = group;
    this.api = api;
    this.witness = witness;
    this.#closing.push(
      () => api.close(),
      () => witness.close(),
    );
  }

  /**
   * Resolves when the group is ready and both processes may permit. `close` ends everything, and so does an error of this call.
   */
  static async set(options: StageOptions): Promise<Stage> {
    const { controlPlane, name, seed } = options;
    const random = seededRandom(seed);
    const podAnnotations = {
      [ANNOTATIONS.readyAfterMs]: String(Math.round(300 + 1_200 * random())),
      [ANNOTATIONS.goneAfterMs]: String(Math.round(random() < 0.5 ? 0 : 3_000 * random())),
    };
    const maxUnavailable = random() < 0.7 ? 1 : 2;
    const made = { name, namespace: name, zones: 3, pods: 3, maxUnavailable, podAnnotations };
    const group = await createGroup(controlPlane, made);
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-user", connections: 12 });
    await createBudget(api, group, maxUnavailable);
    await waitForGroupReady(controlPlane, group);
    const witness = await Witness.start(controlPlane, name, name);
    const stage = new Stage(options, made, group, api, witness);
    try {
      await stage.#serve(options.certificate, random);
    } catch (error) {
      await stage.close();
      throw error;
    }
    return stage;
  }

  /** Numbers for one actor, which do not depend on the draws of others. */
  randomFor(actor: number): Random {
    return seededRandom(this.seed * 1_009 + actor);
  }

  /** The uids of pods whose deletion a process of Sluice requested. */
  get deletedPods(): ReadonlySet<string> {
    return new Set(this.#proxies.flatMap(({ deletedPods }) => [...deletedPods]));
  }

  log(text: string): void {
    this.journal.push({ atMs: Date.now(), text });
  }

  statefulSetPath(name = ""): string {
    return `/apis/apps/v1/namespaces/${this.group.namespace}/statefulsets${name && `/${name}`}`;
  }

  /** A zone's last pod template. @param zone such as "g-zone-a" */
  template(zone: string): Template {
    return this.#templates.get(zone) ?? (this.#manifest(zone).spec.template as Template);
  }

  /** Gives a zone another template, with which it is created later if it does not exist. */
  async changeTemplate(zone: string, template: Template): Promise<void> {
    this.#templates.set(zone, template);
    const operations = [{ op: "replace", path: "/spec/template", value: this.#whole(zone, template) }];
    const answer = await this.api.send("PATCH", this.statefulSetPath(zone), operations, "application/json-patch+json");
    await answer.body.dump();
    if (answer.statusCode !== 200 && answer.statusCode !== 404) throw new Error(`${zone}: ${answer.statusCode}`);
  }

  /** Changes the image of these zones; by default of all zones of the group. */
  async changeImage(image: string, zones: readonly string[] = this.group.statefulSets): Promise<void> {
    this.log(`template of ${zones.join(", ")}: ${image}`);
    for (const zone of zones) {
      const template = this.template(zone);
      await this.changeTemplate(zone, {
        ...template,
        spec: { ...template.spec, containers: [{ name: "app", image }] },
      });
    }
  }

  /** Creates a StatefulSet with the last template of its zone. */
  async createZone(zone: string): Promise<void> {
    const manifest = this.#manifest(zone);
    const spec = { ...manifest.spec, template: this.#whole(zone, this.template(zone)) };
    this.log(`${zone} is made`);
    await this.api.post(this.statefulSetPath(), { ...manifest, spec });
  }

  /** Resolves when the StatefulSet is gone; its pods may still exist. */
  async deleteZone(zone: string, propagationPolicy: "Background" | "Orphan"): Promise<void> {
    this.log(`${zone} is deleted (${propagationPolicy})`);
    await this.api.delete(this.statefulSetPath(zone), { propagationPolicy });
    await eventually(`${zone} gone`, 60_000, async () => ((await this.#exists(zone)) ? undefined : true), 20);
    this.log(`${zone} is gone`);
  }

  async #exists(zone: string): Promise<boolean> {
    return this.api.get(this.statefulSetPath(zone)).then(
      () => true,
      (error: unknown) => {
        if (error instanceof ApiError && error.status === 404) return false;
        throw error;
      },
    );
  }

  /** Requests a pod's eviction once; resolves to the code. */
  async evict(pod: string): Promise<number> {
    const { code, message } = await evict(this.api, this.group.namespace, pod);
    if (code === 201) this.log(`eviction of ${pod} is allowed`);
    if (code === 400 || code === 403)
      this.endedDrains.push(`the eviction of ${pod} was refused for good: ${code} ${message}`);
    return code;
  }

  /** From now on nothing is late. */
  calm(): void {
    this.log("from here on nothing is late");
    for (const proxy of this.#proxies) proxy.calm();
  }

  /** The ledger's reservations, and the last verdict of each process: they show a reader why nothing moves. */
  async describe(): Promise<string> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${this.group.namespace}/leases/sluice-${this.group.name}`;
    const ledger = await this.api
      .get<{ metadata: { annotations?: unknown } }>(path)
      .catch((error: Error) => error.message);
    const logged = this.#servers.flatMap(({ log }, index) => {
      const verdicts = log.filter(({ guard }) => guard !== undefined).slice(-4);
      const errors = log.filter(({ level }) => level === "error").slice(-2);
      return [...verdicts, ...errors].map((line) => `process ${index + 1}: ${line.guard ?? line.level}: ${line.msg}`);
    });
    return [
      `ledger: ${JSON.stringify(typeof ledger === "string" ? ledger : ledger.metadata.annotations)}`,
      ...logged,
    ].join("\n");
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    await Promise.all(this.#closing.map((close) => close()));
  }

  #manifest(zone: string): StatefulSet {
    const letter = zone.codePointAt(zone.length - 1) ?? 97;
    const manifests = groupManifests({ ...this.#made, zones: letter - 96 });
    const manifest = manifests.at(-1);
    if (manifest?.metadata.name !== zone) throw new Error(`${zone} is no zone of ${this.group.name}`);
    return manifest;
  }

  #whole(zone: string, { metadata, spec }: Template): object {
    const { template } = this.#manifest(zone).spec as unknown as { template: { metadata: object } };
    return { metadata: { ...template.metadata, ...metadata }, spec };
  }

  async #serve(certificate: Presented, random: Random): Promise<void> {
    const { url, token, caFile } = this.controlPlane;
    const folder = await mkdtemp(join(tmpdir(), "sluice-lag-"));
    this.#closing.push(() => rm(folder, { recursive: true, force: true }));
    const ca = await readFile(caFile, "utf8");
    const isOnePrompt = random() < 0.5;
    for (let index = 0; index < processes; index++) {
      const its = isOnePrompt ? (index === 0 ? promptLag : lateZonesLag) : lag;
      const proxy = await LaggingProxy.start({ url, ca, seed: this.seed * processes + index, lag: its });
      this.#proxies.push(proxy);
      this.#closing.push(() => proxy.close());
      const kubeconfig = join(folder, `kubeconfig-${index}`);
      await writeKubeconfig(kubeconfig, proxy.url, token, caFile);
      const settings = {
        ...certificate.settings,
        SWEEP_INTERVAL: ["5s", "30s", "5m"][Math.floor(3 * random())] ?? "5m",
      };
      const server = await Server.start({ kubeconfig, namespace: this.group.namespace, settings });
      this.#servers.push(server);
    }
    await Promise.all(this.#servers.map((server) => server.ready()));
    const ports = this.#servers.map(({ tlsPort }) => tlsPort);
    const reviews = await ReviewProxy.open(certificate, ports, this.randomFor(0));
    this.#closing.push(() => reviews.close());
    await registerWebhook(this.api, this.group.namespace, "Mutating", { port: reviews.port, ca: certificate.ca });
    await this.#waitForOldLedger();
  }

  /** A new ledger permits nothing for a while (rule R4), which is not the subject here. */
  async #waitForOldLedger(): Promise<void> {
    const pod = `${this.group.statefulSets[0]}-0`;
    let allowed = 0;
    await eventually(
      "evictions allowed by every process",
      120_000,
      async () => {
        const { code, message } = await evict(this.api, this.group.namespace, pod, "in the body");
        allowed = code === 201 ? allowed + 1 : 0;
        if (code !== 201) throw new Error(`${code} ${message}`);
        return allowed >= 2 * processes ? true : undefined;
      },
      200,
    );
  }
}

/** A budget for all pods of the group: evictions keep what the rollout keeps. */
async function createBudget(api: Api, { name, namespace }: FixtureGroup, maxUnavailable: number): Promise<void> {
  const apiVersion = "rollout-operator.grafana.com/v1";
  await api.post(`/apis/${apiVersion}/namespaces/${namespace}/zoneawarepoddisruptionbudgets`, {
    apiVersion,
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name },
    spec: { maxUnavailable, selector: { matchLabels: { "rollout-group": name } } },
  });
}
