/**
 * A pod of a real API server whose process the shipped function can restart: the shipped runner and the shipped server of a
 * process manager run beside it. The kubelet is played, and the process is one that keeps a journal.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
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

const set = "db-zone-a";
export const podName = `${set}-0`;
export const tokenSecret = "db-token";
export const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";

interface Read {
  readonly metadata: Metadata;
}

export class RestartStage {
  readonly namespace: string;
  readonly controlPlane: ControlPlane;
  readonly api: Api;
  readonly one: ServedPod;
  readonly #names: string;
  readonly #servers: Server[] = [];

  private constructor(namespace: string, controlPlane: ControlPlane, api: Api, one: ServedPod, names: string) {
    this.namespace = namespace;
    this.controlPlane = controlPlane;
    this.api = api;
    this.one = one;
    this.#names = names;
  }

  /** Resolves when the process has started, and its pod is ready. */
  static async set(namespace: string): Promise<RestartStage> {
    const names = await mkdtemp(join(tmpdir(), "sluice-names-"));
    const [shell = assert.fail("no shell")] = await runnerShells(packages ?? assert.fail("no packages"));
    const one = await ServedPod.make(shell);
    const controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-restart" });
    const stage = new RestartStage(namespace, controlPlane, api, one, names);
    await stage.#furnish();
    return stage;
  }

  async #furnish(): Promise<void> {
    const { namespace, one } = this;
    const annotations = {
      "sluice.dev/restart-manager": `http://:${one.port}`,
      "sluice.dev/restart-manager-secret": tokenSecret,
      "sluice.dev/restart-database": "none",
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200" };
    const size = { zones: 1, pods: 1 };
    const group = await createGroup(this.controlPlane, { name: "db", namespace, ...size, annotations, podAnnotations });
    await waitForGroupReady(this.controlPlane, group);
    await this.api.post(this.path("secrets"), { metadata: { name: tokenSecret }, stringData: { token } });
    await this.api.post(this.path("services"), governingService);
    await writeFile(join(this.#names, `${podName}.${set}.${namespace}.svc.cluster.local`), "127.0.0.1");
    one.pod.start();
    one.launchServer({ POD_UID: (await this.read()).metadata.uid });
    await one.reached("started");
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

  read(): Promise<Read> {
    return this.api.get<Read>(this.path("pods", podName));
  }

  async mark(phase: string | null): Promise<void> {
    await this.api.patch(this.path("pods", podName), { metadata: { annotations: { [phaseKey]: phase } } });
  }

  /** Resolves when the pod shows no phase: its restart has ended. */
  async withoutPhase(): Promise<void> {
    await eventually("the end of the restart", patienceMs * 3, async () => {
      const { annotations = {} } = (await this.read()).metadata;
      return annotations[phaseKey] === undefined ? true : undefined;
    });
  }

  /** The claims in the ledger, as they are written; undefined without a ledger. */
  async claims(): Promise<string | undefined> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${this.namespace}/leases`;
    const { items } = await this.api.get<{ readonly items: readonly Read[] }>(path);
    const lease = items.find(({ metadata }) => metadata.name === "sluice-db");
    return lease && (lease.metadata.annotations?.["sluice.dev/claims"] ?? "");
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    await this.api.close();
    await this.controlPlane.stop();
    await this.one.remove();
    await rm(this.#names, { recursive: true, force: true });
  }
}

/** Pods that are not ready have a name by it, so that a stopped process can be started. */
const governingService = {
  metadata: { name: set },
  spec: { clusterIP: "None", publishNotReadyAddresses: true, selector: { name: set }, ports: [{ port: 80 }] },
};
