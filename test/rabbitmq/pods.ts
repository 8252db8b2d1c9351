/**
 * A kubelet that runs pods of the real API server as RabbitMQ nodes. It starts the node of a pod's ordinal, and keeps the file
 * with the pod's label. When a pod is deleted, it runs the stop gate as the hook, within the pod's grace period, and then ends
 * the node.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess } from "../controlplane/api.ts";
import { follow } from "../controlplane/follow.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { type Pod as AnyPod, podStatus, UNREADY } from "../controlplane/podstatus.ts";
import { podNamesIn } from "../support/pod-names.ts";
import { Gate, type GateEnd, makePodFiles, type PodFiles } from "./gate.ts";
import type { Nodes } from "./nodes.ts";

/** Annotations of a pod, by which the fake kubelet that plays all other pods leaves it alone for longer than any test. */
export const RUN_BY_US = { [ANNOTATIONS.readyAfterMs]: "2000000000", [ANNOTATIONS.goneAfterMs]: "2000000000" };

/** Time that a kubelet gives a container after a hook that used up its time. */
const LEAST_STOP_MS = 2_000;
const MARKER_LABEL = "skipPreStopChecks";

type Pod = AnyPod & { readonly spec: { readonly subdomain?: string; readonly terminationGracePeriodSeconds: number } };

export interface Ending {
  readonly pod: string;
  /** Undefined for a hook that its grace period ended. */
  readonly gate: GateEnd | undefined;
  /** Time from the deletion to the end of the hook. */
  readonly hookMs: number;
  /** When the hook ended, by `performance.now()`. */
  readonly atMs: number;
  /** True if the node ended by itself after SIGTERM. */
  readonly isOrderly: boolean;
}

interface Running {
  pod: Pod;
  readonly files: Promise<PodFiles>;
  readonly ordinal: number;
  readonly started: Promise<void>;
  gate: Gate | undefined;
  ended: Promise<void> | undefined;
}

export interface PodsOptions {
  readonly namespace: string;
  readonly nodes: Nodes;
  readonly shell: readonly string[];
  /** Environment of each container, by its template. */
  readonly settings: Readonly<Record<string, string>>;
  /** The file that a user creates in a container by `kubectl exec`. */
  readonly byPerson: string;
}

export class Pods {
  readonly #api: Api;
  readonly #options: PodsOptions;
  /** Folder with a file for each name in DNS, which has its address. */
  readonly #names: string;
  readonly #pods = new Map<string, Running>();
  readonly #stopping = new AbortController();
  readonly #problems: string[] = [];
  readonly #seed = Promise.withResolvers<void>();
  #following: Promise<void> = Promise.resolve();
  /** Endings in order. */
  readonly endings: Ending[] = [];

  private constructor(api: Api, options: PodsOptions, names: string) {
    this.#api = api;
    this.#options = options;
    this.#names = names;
  }

  static async start(access: ApiAccess, options: PodsOptions): Promise<Pods> {
    const api = await Api.open(access, { userAgent: "sluice-test-rabbitmq-kubelet" });
    const pods = new Pods(api, options, await mkdtemp(join(tmpdir(), "sluice-rabbitmq-names-")));
    const follower = {
      path: `/api/v1/namespaces/${options.namespace}/pods?fieldSelector=spec.nodeName!=`,
      known: pods.#pods,
      seen: (pod: Pod) => pods.#observe(pod),
      gone: (uid: string) => void pods.#pods.delete(uid),
    };
    const { ended } = await follow<Pod>(api, follower, pods.#stopping.signal);
    pods.#following = ended;
    return pods;
  }

  /** Errors in the background. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** `NODE_OPTIONS` with which a Node process resolves the names of the pods. */
  get nodeOptions(): string {
    return podNamesIn(this.#names);
  }

  /** The running gate in a pod of that name. */
  gateOf(name: string): Gate | undefined {
    return this.#named(name)?.gate;
  }

  async filesOf(name: string): Promise<PodFiles> {
    const files = await this.#named(name)?.files;
    if (files === undefined) throw new Error(`there is no pod ${name}`);
    return files;
  }

  /**
   * The readiness probe, which runs when a test says so: it writes into the pod's condition whether the node accepts clients.
   */
  async probe(name: string): Promise<void> {
    const running = this.#named(name);
    if (running === undefined) throw new Error(`there is no pod ${name}`);
    await this.#sendStatus(running, await this.#options.nodes.serves(running.ordinal));
  }

  /** Ends the kubelet's own work, and leaves the nodes as they are. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const running = [...this.#pods.values()];
    await Promise.all(running.map(({ gate }) => gate?.kill()));
    await this.#api.close();
    await this.#following;
    await Promise.all(running.map(async ({ files }) => (await files).remove()));
    await rm(this.#names, { recursive: true, force: true });
  }

  #named(name: string): Running | undefined {
    return [...this.#pods.values()].findLast(({ pod }) => pod.metadata.name === name);
  }

  #observe(pod: Pod): void {
    const { uid } = pod.metadata;
    const known = this.#pods.get(uid);
    if (known !== undefined) known.pod = pod;
    else if (pod.metadata.deletionTimestamp === undefined) this.#guard(`${pod.metadata.name} starts`, this.#begin(pod));
    if (known !== undefined) this.#guard(`${pod.metadata.name} is followed`, this.#follow(known));
  }

  #guard(what: string, work: Promise<void>): void {
    work.catch((error) => {
      if (!this.#stopping.signal.aborted) this.#problems.push(`${what}: ${error}`);
    });
  }

  async #begin(pod: Pod): Promise<void> {
    const { name, uid } = pod.metadata;
    const ordinal = Number(name.slice(name.lastIndexOf("-") + 1));
    // The pod is noted before any wait, so that the next event finds it.
    const files = makePodFiles();
    const started = files.then(() => this.#startNode(ordinal));
    started.catch(() => {});
    const running: Running = { pod, files, ordinal, started, gate: undefined, ended: undefined };
    this.#pods.set(uid, running);
    await this.#project(running);
    // The address of a Service that also publishes pods that are not ready.
    await writeFile(this.#nameFile(pod), this.#options.nodes.hostOf(ordinal));
    await started;
    await this.#sendStatus(running, true);
  }

  #nameFile({ metadata, spec }: Pod): string {
    return join(this.#names, `${metadata.name}.${spec.subdomain}.${metadata.namespace}.svc.cluster.local`);
  }

  /** The first node makes the cluster. */
  async #startNode(ordinal: number): Promise<void> {
    if (ordinal > 0) await this.#seed.promise;
    await this.#options.nodes.start(ordinal);
    if (ordinal === 0) this.#seed.resolve();
  }

  async #sendStatus({ pod }: Running, isReady: boolean): Promise<void> {
    const { namespace, name, uid } = pod.metadata;
    const waiting = () => (isReady ? undefined : UNREADY);
    const status = podStatus(pod, waiting, "127.0.0.1", { now: new Date(), seen: new Date() });
    await this.#api.patch(`/api/v1/namespaces/${namespace}/pods/${name}/status`, { metadata: { uid }, status });
  }

  async #follow(running: Running): Promise<void> {
    // A real kubelet does not refresh the volumes of a terminating pod.
    if (running.pod.metadata.deletionTimestamp === undefined) return this.#project(running);
    running.ended ??= this.#end(running);
    await running.ended;
  }

  async #project({ pod, files }: Running): Promise<void> {
    const { marker } = await files;
    await writeFile(marker, pod.metadata.labels?.[MARKER_LABEL] ?? "");
  }

  async #end(running: Running): Promise<void> {
    const { nodes, shell, settings, byPerson } = this.#options;
    const { pod, ordinal } = running;
    const files = await running.files;
    const { namespace, name, uid, deletionGracePeriodSeconds = 0 } = pod.metadata;
    const startedMs = performance.now();
    const elapsedMs = () => performance.now() - startedMs;
    const graceMs = deletionGracePeriodSeconds * 1_000;
    await running.started.catch(() => {});
    const own = {
      STOP_GATE_SKIP_FILES: `${files.marker} ${byPerson}`,
      // A hook cannot read the grace period, so a template has it twice.
      STOP_GATE_GRACE_SECONDS: String(pod.spec.terminationGracePeriodSeconds),
    };
    const environment = { ...nodes.environment(ordinal), ...settings, ...own };
    const gate = new Gate({ pod: files, shell, environment, mostMs: graceMs + 10_000 });
    running.gate = gate;
    const inTime = await Promise.race([gate.ended, delay(graceMs, undefined, { signal: this.#stopping.signal })]);
    const hookMs = elapsedMs();
    const atMs = performance.now();
    if (inTime === undefined) await gate.kill();
    const isOrderly = await nodes.stop(ordinal, Math.max(LEAST_STOP_MS, graceMs - elapsedMs()));
    await rm(this.#nameFile(pod), { force: true });
    this.endings.push({ pod: name, gate: inTime || undefined, hookMs, atMs, isOrderly });
    const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
    await this.#api.delete(path, { gracePeriodSeconds: 0, preconditions: { uid } });
    await files.remove();
  }
}
