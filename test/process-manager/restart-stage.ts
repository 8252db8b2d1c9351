/**
 * A pod of a real API server whose process the shipped function can restart: the shipped runner and the shipped server of a
 * process manager run beside it. The kubelet is played, and the process is one that keeps a journal.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { createGoverningServices } from "../support/governing-services.ts";
import { packagesForTests } from "../support/packages.ts";
import { podNamesIn } from "../support/pod-names.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { patienceMs } from "./pod.ts";
import { ServedPod, token } from "./served-pod.ts";
import { runnerShells } from "./shells.ts";

const packages = await packagesForTests();
/** Why no stage can be set here. */
export const skipWithoutStage = packages === undefined || (await skipWithoutControlPlane());

const setOf = (zone: number): string => `db-zone-${String.fromCharCode(97 + zone)}`;
export const podName = `${setOf(0)}-0`;
export const tokenSecret = "db-token";
export const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";

const journalName = "journal";

interface Read {
  readonly metadata: Metadata;
}

export class RestartStage {
  readonly namespace: string;
  readonly controlPlane: ControlPlane;
  readonly api: Api;
  /** One of each zone. */
  readonly pods: readonly ServedPod[];
  readonly #names: string;
  readonly #servers: Server[] = [];

  private constructor(
    namespace: string,
    controlPlane: ControlPlane,
    api: Api,
    pods: readonly ServedPod[],
    names: string,
  ) {
    this.namespace = namespace;
    this.controlPlane = controlPlane;
    this.api = api;
    this.pods = pods;
    this.#names = names;
  }

  /** Resolves when each process has started, and its pod is ready. Several zones share a journal. */
  static async set(namespace: string, zones = 1): Promise<RestartStage> {
    const names = await mkdtemp(join(tmpdir(), "sluice-names-"));
    const [shell = assert.fail("no shell")] = await runnerShells(packages ?? assert.fail("no packages"));
    const shared = { JOURNAL: join(names, journalName) };
    const pods: ServedPod[] = [];
    for (let zone = 0; zone < zones; zone++) {
      const own = { files: { "db.yml": setOf(zone) }, environment: shared };
      pods.push(await ServedPod.make(shell, zones === 1 ? {} : own));
    }
    const controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-restart" });
    const stage = new RestartStage(namespace, controlPlane, api, pods, names);
    await stage.#furnish();
    return stage;
  }

  async #furnish(): Promise<void> {
    const { namespace, pods } = this;
    const annotations = {
      "sluice.dev/restart-manager": `http://:${this.one.port}`,
      "sluice.dev/restart-manager-secret": tokenSecret,
      "sluice.dev/restart-database": "none",
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200" };
    const size = { zones: pods.length, pods: 1 };
    const group = await createGroup(this.controlPlane, { name: "db", namespace, ...size, annotations, podAnnotations });
    await waitForGroupReady(this.controlPlane, group);
    await this.api.post(this.path("secrets"), { metadata: { name: tokenSecret }, stringData: { token } });
    await createGoverningServices(this.api, group);
    for (const [zone, pod] of pods.entries()) await this.#start(setOf(zone), pod);
  }

  async #start(set: string, served: ServedPod): Promise<void> {
    const manager = { "sluice.dev/restart-manager": `http://:${served.port}` };
    await this.api.patch(this.setPath(set), { metadata: { annotations: manager } });
    const name = `${set}-0`;
    await writeFile(join(this.#names, `${name}.${set}.${this.namespace}.svc.cluster.local`), "127.0.0.1");
    served.pod.start();
    served.launchServer({ POD_UID: (await this.read(name)).metadata.uid });
    await served.reached("started");
  }

  /** That of the first zone. */
  get one(): ServedPod {
    return this.pods[0] ?? assert.fail("no pod");
  }

  /** The lines of the journal that several zones share: `stop` or `start`, and the StatefulSet. */
  async journal(): Promise<readonly string[]> {
    const lines = (await readFile(join(this.#names, journalName), "utf8")).split("\n").filter(Boolean);
    const sets = new Map(lines.map((line) => line.split(" ")).map(([, pid, set = ""]) => [set && pid, set]));
    return lines.map((line) => {
      const [verb, pid] = line.split(" ");
      return `${verb} ${sets.get(pid)}`;
    });
  }

  setPath(set: string): string {
    return `/apis/apps/v1/namespaces/${this.namespace}/statefulsets/${set}`;
  }

  /** Starts the shipped function with these settings besides its own. */
  async serve(settings: Readonly<Record<string, string>>, kubeconfig = this.controlPlane.kubeconfig): Promise<Server> {
    const all = { ...settings, NODE_OPTIONS: podNamesIn(this.#names) };
    const server = await Server.start({ kubeconfig, namespace: this.namespace, settings: all });
    this.#servers.push(server);
    return server;
  }

  /** The path of objects of the core group. */
  path(plural: string, name?: string): string {
    return `/api/v1/namespaces/${this.namespace}/${plural}${name === undefined ? "" : `/${name}`}`;
  }

  read(name = podName): Promise<Read> {
    return this.api.get<Read>(this.path("pods", name));
  }

  async mark(phase: string | null): Promise<void> {
    await this.api.patch(this.path("pods", podName), { metadata: { annotations: { [phaseKey]: phase } } });
  }

  /** Writes the phase on the StatefulSet of the first zone, and resolves once the function has written it to the pods. */
  async markAll(phase: string): Promise<void> {
    const path = this.setPath(setOf(0));
    await this.api.patch(path, { metadata: { annotations: { [phaseKey]: phase } } });
    await eventually("the phase on the pods", patienceMs * 3, async () => {
      const { metadata } = await this.api.get<{ readonly metadata: Metadata }>(path);
      return metadata.annotations?.[phaseKey] === undefined ? true : undefined;
    });
  }

  /** Resolves when the pod shows no phase: its restart has ended. */
  async withoutPhase(name = podName): Promise<void> {
    await eventually("the end of the restart", patienceMs * 3, async () => {
      const { annotations = {} } = (await this.read(name)).metadata;
      return annotations[phaseKey] === undefined ? true : undefined;
    });
  }

  /**
   * Writes a trigger on StatefulSets as a GitOps tool does, by a server-side apply of all that is its own. Resolves when the
   * ledger has remembered it, and nothing is claimed.
   */
  async trigger(value: string, sets: readonly string[]): Promise<void> {
    const annotations = { "sluice.dev/restart-trigger": value };
    for (const name of sets) {
      const object = { apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name, annotations } };
      const path = `${this.setPath(name)}?fieldManager=gitops&force=true`;
      await this.api.request("PATCH", path, object, "application/apply-patch+yaml");
    }
    await eventually("the end of the restarts", patienceMs * 6, async () => {
      const { "sluice.dev/restart-triggers": text = "{}", "sluice.dev/claims": claims } = (await this.ledger()) ?? {};
      const known = JSON.parse(text) as Readonly<Record<string, { readonly text: string }>>;
      return (claims === "" && sets.every((name) => known[name]?.text === value)) || undefined;
    });
  }

  /** The claims in the ledger, as they are written; undefined without a ledger. */
  async claims(): Promise<string | undefined> {
    const annotations = await this.ledger();
    return annotations && (annotations["sluice.dev/claims"] ?? "");
  }

  /** The annotations of the ledger; undefined without one. */
  async ledger(): Promise<Metadata["annotations"]> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${this.namespace}/leases`;
    const { items } = await this.api.get<{ readonly items: readonly Read[] }>(path);
    const lease = items.find(({ metadata }) => metadata.name === "sluice-db");
    return lease && (lease.metadata.annotations ?? {});
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    await this.api.close();
    await this.controlPlane.stop();
    for (const pod of this.pods) await pod.remove();
    await rm(this.#names, { recursive: true, force: true });
  }
}
