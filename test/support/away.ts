/**
 * How a user removes Sluice from a namespace: what the manual deletes, what it says stays, and what must be possible
 * afterwards.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Api, ApiError, eventually } from "../controlplane/api.ts";
import { readImage } from "./dockerfile.ts";
import { evict } from "./drain-webhook.ts";
import { kubeconfigOf, workloadOf } from "./installed.ts";
import type { Built, Kubectl } from "./kubectl.ts";
import type { Scene } from "./scene.ts";
import { launchServer, type Server } from "./server.ts";

interface Labelled extends Built {
  readonly metadata: Built["metadata"] & { readonly labels?: Readonly<Record<string, string>> };
}

interface Deletion {
  /** As kubectl calls them in the singular. */
  readonly types: readonly string[];
  readonly labels: readonly (readonly [key: string, value: string])[];
  /** Absent: those of the whole cluster. */
  readonly namespace?: string;
  /** Of the names that it deletes; absent: all. */
  readonly name?: RegExp;
}

/** The chapter of the manual, for one namespace. */
export interface AwayChapter {
  readonly commands: readonly string[];
  isDeleted(object: Built): boolean;
  /** True for what it says stays. */
  isNamed(object: Built): boolean;
}

/** Reads the chapter for a namespace that replaces the manual's `mimir`. */
export async function readAway(kubectl: Kubectl, namespace: string): Promise<AwayChapter> {
  const typed = await kubectl.commandsOf("README.md", "Away with it");
  const commands = typed.map((line) => line.replaceAll("mimir", namespace));
  const deletions = commands.flatMap(deletionOf);
  assert.ok(deletions.length >= 6, commands.join("\n"));
  const readme = await readFile(join(import.meta.dirname, "../../knative/README.md"), "utf8");
  const [, stays = assert.fail()] = /^## Away with it\n[\s\S]*?^This stays:\n([\s\S]*?)^## /m.exec(readme) ?? [];
  return {
    commands,
    isDeleted: (object) => deletions.some((one) => deletes(one, object)),
    isNamed({ kind, metadata: { name, labels } }: Labelled) {
      if (kind === "ClusterRole" && !name.endsWith(`:${namespace}`))
        return /ClusterRoles whose names do not end in the namespace/.test(stays);
      const component = labels?.["app.kubernetes.io/component"];
      return stays.includes(`\`${name}\``) || (component === "outside" && /the overlay `outside`/.test(stays));
    },
  };
}

function deletionOf(command: string): readonly Deletion[] {
  const [, namespace, verb, list = "", selector = ""] =
    /^kubectl(?: -n (\S+))? (delete|get) ([a-z,]+) -l ([^ ]+)/.exec(command) ?? [];
  const [, pattern] = /\| grep '([^']+)' \| xargs -r kubectl delete$/.exec(command) ?? [];
  if (verb !== "delete" && pattern === undefined) return [];
  const labels = selector.split(",").map((one) => one.split("=") as [string, string]);
  const name = pattern === undefined ? {} : { name: new RegExp(pattern) };
  return [{ types: list.split(","), labels, ...(namespace === undefined ? {} : { namespace }), ...name }];
}

function deletes({ types, labels, namespace, name }: Deletion, { apiVersion, kind, metadata }: Labelled): boolean {
  // Objects without a namespace get that of the user's kustomization.
  if (namespace !== undefined && (metadata.namespace ?? namespace) !== namespace) return false;
  const type = apiVersion.startsWith("serving.knative.dev/") ? "ksvc" : kind.toLowerCase();
  const hasLabels = labels.every(([key, value]) => metadata.labels?.[key] === value);
  return types.includes(type) && hasLabels && (name === undefined || name.test(metadata.name));
}

/** Starts a server as the Deployment `sluice` would run it now, without a port that an API server would ask. */
export async function serveInstalled(scene: Scene): Promise<Server> {
  const { kubeconfig, settings } = await deployedIn(scene);
  // Sweeps soon find what no watch reports.
  const ours = { PORT: "0", TLS_PORT: "0", SWEEP_INTERVAL: "1s" };
  const server = await scene.serve({ ...settings, ...ours }, { kubeconfig });
  await server.ready();
  return server;
}

async function deployedIn({ api, controlPlane, group: { namespace } }: Scene) {
  const deployment = await api.get<Built>(`/apis/apps/v1/namespaces/${namespace}/deployments/sluice`);
  const { account, settings } = workloadOf([{ ...deployment, kind: "Deployment", apiVersion: "apps/v1" }], "sluice");
  return { settings, kubeconfig: await kubeconfigOf(controlPlane, api, namespace, account) };
}

/** Runs here what a user runs by `kubectl exec` in a pod of the Deployment `sluice`: pods do not run. */
export async function typeInPod(scene: Scene, command: string) {
  const [, program = "", args = ""] = /^kubectl -n \S+ exec deployment\/sluice -- (\S+ \S+) (.*)$/.exec(command) ?? [];
  assert.equal(program, (await readImage()).command.join(" "));
  const { namespace } = scene.group;
  const launched = launchServer({ ...(await deployedIn(scene)), namespace, args: args.split(" ") });
  const { code } = await launched.ended;
  return { code, ...launched.printed() };
}

/**
 * Creates a StatefulSet that Sluice gives its finalizer, and a volume claim without an owner that has had one since its
 * suspension.
 */
export async function askForFinalizers(scene: Scene): Promise<void> {
  const { api } = scene;
  const [owner, pvc] = finalizedPaths(scene);
  const annotations = { "sluice.dev/skip-label": "skipPreStopChecks" };
  await api.patch(owner, { metadata: { annotations } });
  await api.post(pvc.replace(/\/[^/]*$/, ""), {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: "data-gone-0",
      labels: { "sluice.dev/suspended": "true" },
      annotations: { "sluice.dev/suspend": "true" },
      finalizers: ["sluice.dev/volume-hold"],
    },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  await eventually("the finalizer of Sluice", 30_000, async () =>
    (await finalizersOf(api, owner)).includes("sluice.dev/release-prestop") ? true : undefined,
  );
}

/** The objects that {@link askForFinalizers} creates. */
function finalizedPaths(scene: Scene): readonly [owner: string, pvc: string] {
  const { group } = scene;
  const [first = assert.fail()] = group.statefulSets;
  const pvc = `/api/v1/namespaces/${group.namespace}/persistentvolumeclaims/data-gone-0`;
  return [scene.statefulSetPath(first), pvc];
}

async function finalizersOf(api: Api, path: string): Promise<readonly string[]> {
  const { metadata } = await api.get<{ metadata: { finalizers?: readonly string[] } }>(path);
  return metadata.finalizers ?? [];
}

/** Tries what a webhook of Sluice would refuse while no replica answers: a StatefulSet that gets smaller, and an eviction. */
export async function refusalsOf({ api, group }: Scene): Promise<readonly string[]> {
  const [, second = assert.fail()] = group.statefulSets;
  const path = `/apis/apps/v1/namespaces/${group.namespace}/statefulsets/${second}`;
  const scaled = await api.patch(path, { spec: { replicas: 1 } }).then(
    () => [],
    (error: ApiError) => [error.message],
  );
  const { code } = await evict(api, group.namespace, `${second}-0`);
  return [...scaled, ...(code === 201 ? [] : [`eviction: ${code}`])];
}

/** Without Sluice a user can make a StatefulSet smaller, evict a pod, and delete objects that had a finalizer. */
export async function nothingInTheWay(scene: Scene): Promise<void> {
  assert.deepEqual(await refusalsOf(scene), []);
  await deleteFinalized(scene);
  await finalizedGone(scene);
}

/** Asks for the deletion of what {@link askForFinalizers} has made. Resolves to the finalizers of Sluice that then hold it. */
export async function deleteFinalized(scene: Scene): Promise<readonly string[]> {
  for (const path of finalizedPaths(scene)) await scene.api.delete(path);
  const left = finalizedPaths(scene).map((path) => finalizersOf(scene.api, path).catch(unlessGone));
  return (await Promise.all(left)).flat().filter((one) => one.startsWith("sluice.dev/"));
}

/** Resolves when what {@link askForFinalizers} has made is gone. */
export async function finalizedGone(scene: Scene): Promise<void> {
  for (const path of finalizedPaths(scene))
    await eventually(`${path} gone`, 30_000, async () => {
      const finalizers = await finalizersOf(scene.api, path).catch((error: ApiError) => error);
      return finalizers instanceof ApiError && finalizers.status === 404 ? true : undefined;
    });
}

function unlessGone(error: unknown): readonly string[] {
  if (error instanceof ApiError && error.status === 404) return [];
  throw error;
}
