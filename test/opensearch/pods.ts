/**
 * A StatefulSet for each zone on a real API server, whose pods are played: the shipped runner starts a real node, and the shipped
 * server is beside it. The kubelet's part of it is played here: volumes, and the readiness of pods.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { UNREADY } from "../controlplane/podstatus.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { keepMounted } from "../process-manager/mounted-secret.ts";
import { ServedPod, type ServedPodOptions, token } from "../process-manager/served-pod.ts";
import { type RunnerShell, runnerShells } from "../process-manager/shells.ts";
import { applyCrds } from "../support/drain.ts";
import { createGoverningServices } from "../support/governing-services.ts";
import type { Packages } from "../support/packages.ts";
import { podNamesIn } from "../support/pod-names.ts";
import { Server, type ServerOptions } from "../support/server.ts";
import { Container } from "./container.ts";
import { downMsIn, type ProcessEvent, readEvents } from "./journal.ts";
import { Nodes, type NodesOptions, nodeGroup, slowMs } from "./nodes.ts";

export const namespace = "search";
const group = "db";
export const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";
const probeEveryMs = 300;
/** The first status of a pod of the group, after its creation. */
const readyAfterMs = 200;
/** In place of a time after which the played kubelet would do by itself what is done here. */
const neverMs = 86_400_000;
/** The grace period of pods. */
const graceMs = 30_000;

/** The annotations by which a StatefulSet names its database, which answers at this port. */
export function asDatabase(port: number): Readonly<Record<string, string>> {
  return { "sluice.dev/restart-database": "opensearch", "sluice.dev/restart-database-url": `http://:${port}` };
}

export interface PodsOptions extends NodesOptions {
  /** The folder of the program that the nodes run. */
  readonly home: string;
  readonly packages: Packages;
  /** Each has one pod. */
  readonly zones: number;
  /** For the StatefulSets, by the port at which the nodes answer. */
  readonly annotations: (port: number) => Readonly<Record<string, string>>;
  /** Default: clients have no time to leave before a process is stopped. */
  readonly drainSeconds?: string;
  /** For each pod its expected files are in a Secret, and it mounts another one. Default: a test mounts the files itself. */
  readonly hasSecrets?: boolean;
}

const expectedSecret = (name: string) => `${name}-files`;
const mountedSecret = (name: string) => `${name}-mounted`;

/** The name of a pod in DNS. */
export function hostOf(name: string): string {
  return `${name}.${name.replace(/-0$/, "")}.${namespace}.svc.cluster.local`;
}

/** The pods' names, one in each zone. */
export function namesIn(zones: number): readonly string[] {
  return ["a", "b", "c"].slice(0, zones).map((zone) => `${group}-zone-${zone}-0`);
}

export class Pods {
  readonly nodes: Nodes;
  readonly api: Api;
  readonly names: readonly string[];
  readonly #controlPlane: ControlPlane;
  readonly #folder: string;
  /** The pods that a Service leads to now. */
  readonly ready: Set<string>;
  readonly #served = new Map<string, ServedPod>();
  readonly #containers = new Map<string, Container>();
  /** Pods that were deleted, until the next one of their name has started. */
  readonly #leaving = new Set<string>();
  /** Lines of the mounted file that were changed; undefined: none were. */
  #mounted: readonly string[] | undefined;
  #make: (name: string) => Promise<ServedPod> = () => Promise.reject(new Error("the pods were not opened"));
  readonly #stopping = new AbortController();
  #probes: Promise<unknown> = Promise.resolve();
  #mounting: Promise<unknown> = Promise.resolve();
  #function: Server | undefined;

  private constructor(controlPlane: ControlPlane, api: Api, nodes: Nodes, folder: string) {
    this.#controlPlane = controlPlane;
    this.api = api;
    this.nodes = nodes;
    this.names = nodes.names;
    this.ready = new Set(nodes.names);
    this.#folder = folder;
  }

  /** Resolves when all nodes are one green cluster, and all pods are ready. */
  static async open(options: PodsOptions): Promise<Pods> {
    const nodes = await Nodes.make(options.home, namesIn(options.zones), options);
    const folder = await mkdtemp(join(tmpdir(), "sluice-opensearch-pods-"));
    const controlPlane = await startControlPlane();
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-opensearch" });
    const pods = new Pods(controlPlane, api, nodes, folder);
    try {
      await pods.#begin(options);
    } catch (error) {
      await pods.close();
      throw error;
    }
    return pods;
  }

  async #begin({ packages, zones, annotations, drainSeconds = "0", hasSecrets = false }: PodsOptions): Promise<void> {
    const [shell] = await runnerShells(packages);
    const options = { port: await freePort(), drainSeconds };
    this.#make = (name) => this.#makePod(name, shell as RunnerShell, options);
    for (const name of this.names) this.#served.set(name, await this.#make(name));
    await Promise.all([this.#createObjects(options.port, zones, annotations(this.nodes.port)), this.#startNodes()]);
    if (hasSecrets) await this.#createSecrets();
    for (const [name, served] of this.#served) {
      await writeFile(join(this.#folder, hostOf(name)), served.address);
      served.launchServer({ POD_UID: (await this.metadataOf(name)).uid });
    }
    for (const served of this.#served.values()) await served.reached("started");
    this.#probes = Promise.all(this.names.map((name) => this.#probe(name)));
  }

  #makePod(name: string, shell: RunnerShell, options: ServedPodOptions): Promise<ServedPod> {
    return ServedPod.make(shell, {
      files: this.nodes.files(this.#mounted),
      // A runner that is killed takes its process with it, as PID 1 of a container does.
      command: [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "--",
        "sh",
        join(import.meta.dirname, "database.sh"),
        ...this.nodes.commandOf(name),
      ],
      environment: {
        ...this.nodes.environment(name),
        PATH: process.env.PATH ?? "",
        JOURNAL: join(this.#folder, "journal"),
        SLUICE_LINK_INTO: this.nodes.configOf(name),
      },
      group: nodeGroup,
      address: this.nodes.addressOf(name),
      ...options,
    });
  }

  async #createObjects(port: number, zones: number, more: Readonly<Record<string, string>>): Promise<void> {
    await applyCrds(this.#controlPlane);
    const annotations = {
      "sluice.dev/restart-manager": `http://:${port}`,
      "sluice.dev/restart-manager-secret": "db-token",
      ...more,
    };
    this.#controlPlane.kubelet.setReadyAfter(readyAfterMs);
    const options = { name: group, namespace, zones, pods: 1, annotations };
    const made = await createGroup(this.#controlPlane, options);
    await createGoverningServices(this.api, made);
    await this.api.post(`/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name: "db-token" },
      stringData: { token },
    });
    await waitForGroupReady(this.#controlPlane, made);
  }

  async #createSecrets(): Promise<void> {
    const stringData = this.nodes.files();
    for (const pod of this.names) {
      const [expected, mounted] = [expectedSecret(pod), mountedSecret(pod)];
      for (const name of [expected, mounted])
        await this.api.post(`/api/v1/namespaces/${namespace}/secrets`, { metadata: { name }, stringData });
      const annotations = { "sluice.dev/restart-config": expected, "sluice.dev/restart-mounted": mounted };
      await this.api.patch(setPathOf(pod), { metadata: { annotations } });
    }
    const { signal } = this.#stopping;
    this.#mounting = Promise.all(
      [...this.#served].map(([name, { pod }]) => keepMounted(this.api, secretPath(mountedSecret(name)), pod, signal)),
    );
  }

  /** Writes these lines into the expected Secrets of these pods, as a person does. */
  async expect(lines: readonly string[], names = this.names): Promise<void> {
    const stringData = this.nodes.files(lines);
    for (const name of names) await this.api.patch(secretPath(expectedSecret(name)), { stringData });
  }

  async #startNodes(): Promise<void> {
    for (const [name, { pod }] of this.#served) this.#containers.set(name, Container.start(pod));
    await this.nodes.green(this.names[0] ?? "");
  }

  /**
   * Deletes a pod as a person does, and plays the kubelet: its process ends first, and the next pod has volumes of its own, the
   * file that was mounted last, and the same data. It starts `startAfterMs` after it was made. Not for pods with Secrets.
   */
  async replace(name: string, startAfterMs: number): Promise<void> {
    const { kubelet } = this.#controlPlane;
    kubelet.setGoneAfter(neverMs);
    kubelet.setReadyAfter(neverMs);
    const preconditions = { uid: (await this.metadataOf(name)).uid };
    this.#leaving.add(name);
    await this.api.delete(pathOf(name), { preconditions });
    this.ready.delete(name);
    await this.#containers.get(name)?.stop(graceMs);
    await this.servedOf(name).remove();
    await this.api.delete(pathOf(name), { preconditions, gracePeriodSeconds: 0 });
    const next = await eventually(`another pod ${name}`, slowMs, async () => {
      const { uid } = await this.metadataOf(name);
      return uid === preconditions.uid ? undefined : uid;
    });
    await delay(startAfterMs);
    const served = await this.#make(name);
    this.#served.set(name, served);
    this.#containers.set(name, Container.start(served.pod));
    served.launchServer({ POD_UID: next });
    this.#leaving.delete(name);
  }

  get controlPlane(): ControlPlane {
    return this.#controlPlane;
  }

  /** Of a Sluice with this one function, which finds the pods. */
  get functionSettings(): Readonly<Record<string, string>> {
    return { FUNCTION: "advance-process-restart", NODE_OPTIONS: podNamesIn(this.#folder) };
  }

  /** Starts Sluice with this one function, as a process of its own. One that runs already ends before, as by `kill -9`. */
  async startFunction(more: Pick<ServerOptions, "program" | "flags" | "settings"> = {}): Promise<void> {
    await this.#function?.kill();
    const { kubeconfig } = this.#controlPlane;
    const settings = { ...more.settings, ...this.functionSettings };
    this.#function = await Server.start({ ...more, kubeconfig, namespace, settings });
  }

  /** What the function has logged since it started. */
  get log(): string {
    return (this.#function?.log ?? []).map(({ msg }) => msg).join("\n");
  }

  servedOf(name: string): ServedPod {
    const served = this.#served.get(name);
    if (served === undefined) throw new Error(`there is no pod ${name}`);
    return served;
  }

  /** Brings these lines into the mounted file of all pods, as the kubelet does for a changed Secret. */
  async mount(lines: readonly string[]): Promise<void> {
    this.#mounted = lines;
    for (const { pod } of this.#served.values()) await pod.mount(this.nodes.files(lines));
  }

  async metadataOf(name: string): Promise<Metadata> {
    const { metadata } = await this.api.get<{ readonly metadata: Metadata }>(pathOf(name));
    return metadata;
  }

  /** Writes annotations on a pod, as a person does; null takes one off. */
  async annotate(name: string, annotations: Readonly<Record<string, string | null>>): Promise<void> {
    await this.api.patch(pathOf(name), { metadata: { annotations } });
  }

  /** Writes a phase on a pod, as a person does. */
  mark(name: string, phase: string): Promise<void> {
    return this.annotate(name, { [phaseKey]: phase });
  }

  /** Kills the container of a pod, and resolves when it has started again. */
  async restartContainer(name: string): Promise<void> {
    await this.#containers.get(name)?.restart();
  }

  /** Writes a phase on all StatefulSets, as a person does. */
  async markSets(phase: string): Promise<void> {
    const metadata = { annotations: { [phaseKey]: phase } };
    for (const name of this.names) await this.api.patch(setPathOf(name), { metadata });
  }

  /** The keys of the annotations of all StatefulSets and pods. */
  async keys(): Promise<readonly string[]> {
    const paths = this.names.flatMap((name) => [setPathOf(name), pathOf(name)]);
    const all = await Promise.all(paths.map((path) => this.api.get<{ readonly metadata: Metadata }>(path)));
    return all.flatMap(({ metadata: { annotations = {} } }) => Object.keys(annotations));
  }

  /** Waits until these pods have no phase, and resolves to their metadata. Otherwise throws with what was seen last. */
  async restarted(names: readonly string[], timeoutMs = 2 * slowMs): Promise<readonly Metadata[]> {
    let phases: readonly (string | undefined)[] = [];
    try {
      return await eventually("the end of all restarts", timeoutMs, async () => {
        const all = await Promise.all(names.map((name) => this.metadataOf(name)));
        phases = all.map(({ annotations = {} }) => annotations[phaseKey]);
        return phases.every((phase) => phase === undefined) ? all : undefined;
      });
    } catch (error) {
      const seen = { phases, claims: await this.claims(), journal: await this.journal() };
      const log = this.log.slice(-2_000);
      throw new Error(`${(error as Error).message}: ${JSON.stringify({ ...seen, log })}`, { cause: error });
    }
  }

  /** The claims in the group's ledger; empty if there are none. */
  async claims(): Promise<string> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-${group}`;
    const { metadata } = await this.api.get<{ readonly metadata: Metadata }>(path);
    return metadata.annotations?.["sluice.dev/claims"] ?? "";
  }

  /** What all processes have noted, in the order in which it happened. */
  events(): Promise<readonly ProcessEvent[]> {
    return readEvents(join(this.#folder, "journal"));
  }

  /** The same, as event and pod. */
  async journal(): Promise<readonly string[]> {
    return (await this.events()).map(({ event, name }) => `${event} ${name}`);
  }

  /** How long each pod has had no process between its last two, in milliseconds. */
  async downMs(): Promise<readonly number[]> {
    return downMsIn(await this.events(), this.names);
  }

  /** The readiness probes of both containers of a pod. */
  async #probe(name: string): Promise<void> {
    const { signal } = this.#stopping;
    const { kubelet } = this.#controlPlane;
    while (!signal.aborted) {
      const isReady = await this.#isReady(name);
      if (isReady !== this.ready.has(name) && !this.#leaving.has(name)) {
        if (isReady) this.ready.add(name);
        else this.ready.delete(name);
        await (isReady ? kubelet.healPod(namespace, name) : kubelet.breakPod(namespace, name, UNREADY));
      }
      await delay(probeEveryMs, undefined, { signal }).catch(() => {});
    }
  }

  async #isReady(name: string): Promise<boolean> {
    try {
      const isStarted = (await this.servedOf(name).ask("/ready")).status === 200;
      // Not green: while a restart restricts allocation, copies are missing until it has ended.
      const query = `wait_for_nodes=${this.names.length}&wait_for_status=yellow&wait_for_no_initializing_shards=true`;
      const path = this.ready.has(name) ? "/" : `/_cluster/health?${query}&timeout=1s`;
      return isStarted && (await this.nodes.ask(name, path)).status === 200;
    } catch {
      return false;
    }
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#probes, this.#mounting, ...[...this.#containers.values()].map((one) => one.stop(0))]);
    await this.#function?.kill();
    await this.api.close();
    await this.#controlPlane.stop();
    for (const served of this.#served.values()) await served.remove();
    releasePorts(...[...this.#served.values()].map(({ port }) => port));
    await this.nodes.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function secretPath(name: string): string {
  return `/api/v1/namespaces/${namespace}/secrets/${name}`;
}

/** The path of the StatefulSet of this pod. */
function setPathOf(name: string): string {
  return `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name.replace(/-0$/, "")}`;
}

function pathOf(name: string): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}`;
}
