import { createHash } from "node:crypto";
import { copyFile, mkdir, rename, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  cacheFolder,
  ensureBuilt,
  type GoBuild,
  holds,
  type Log,
  missingFiles,
  type Recipe,
  recipeFolder,
  runGo,
} from "./build.ts";

/** The versions of Kubernetes that tests run on: the newest that is pinned, and the oldest that the chart takes. */
export const KUBERNETES = {
  newest: { version: "1.36.3", module: "kubernetes" },
  oldest: { version: "1.30.14", module: "kubernetes-oldest" },
} as const;
type KubernetesChoice = keyof typeof KUBERNETES;

/** What `setup-envtest` installs: every folder in KUBEBUILDER_ASSETS has them. */
const ENVTEST_BINARIES = ["etcd", "kube-apiserver", "kubectl"];
const BINARIES = [...ENVTEST_BINARIES, "kube-controller-manager"];
const PEER_CRD = "zone-aware-pod-disruption-budget.yaml";
const PEER_PACKAGE = "github.com/grafana/rollout-operator/cmd/rollout-operator";

/** Clients parse the version that the API server reports, and the audit log tells what binaries call themselves. */
function kubernetesLdflags(version: string): string {
  const [major, minor] = version.split(".");
  const stamps = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor, gitCommit: "unknown" };
  const flags = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((library) =>
    Object.entries(stamps).map(([name, value]) => `-X ${library}.${name}=${value}`),
  );
  return ["-s", "-w", ...flags].join(" ");
}

function kubernetes(which: KubernetesChoice, ...commands: string[]): GoBuild {
  const { version, module } = KUBERNETES[which];
  const packages = commands.map((command) => `k8s.io/kubernetes/cmd/${command}`);
  return { module, packages, ldflags: kubernetesLdflags(version) };
}

const CONTROL_PLANE: Recipe = {
  name: "controlplane",
  builds: [
    { module: "etcd", packages: ["."], ldflags: "-s -w" },
    kubernetes("newest", "kube-apiserver", "kube-controller-manager", "kubectl"),
  ],
  files: BINARIES,
  expectation: "this happens once and takes about 5 minutes on 2 cores",
};

/** For a KUBEBUILDER_ASSETS without one, which is what `setup-envtest` makes. */
const CONTROLLER_MANAGER: Recipe = {
  name: "kube-controller-manager",
  builds: [kubernetes("newest", "kube-controller-manager")],
  files: ["kube-controller-manager"],
  expectation: "this happens once and takes about 3 minutes on 2 cores",
};

/** It runs on the etcd of the newest one. */
const OLDEST_KUBERNETES: Recipe = {
  name: "kubernetes-oldest",
  builds: [kubernetes("oldest", "kube-apiserver", "kube-controller-manager", "kubectl")],
  files: ["kube-apiserver", "kube-controller-manager", "kubectl"],
  expectation: "this happens once and takes about 10 minutes on 2 cores",
};

const PEER: Recipe = {
  name: "rollout-operator",
  builds: [{ module: "peer", packages: [PEER_PACKAGE], ldflags: "-s -w" }],
  files: ["rollout-operator", PEER_CRD],
  expectation: "this happens once and takes about a minute on 2 cores",
  finish: async (folder) => {
    const sources = (await runGo(["list", "-f", "{{.Dir}}", PEER_PACKAGE], "peer")).trim();
    const crd = resolve(sources, "../../operations/rollout-operator/crds", PEER_CRD);
    await copyFile(crd, join(folder, PEER_CRD));
  },
};

const ACTIONLINT: Recipe = {
  name: "actionlint",
  builds: [{ module: "actionlint", packages: ["github.com/rhysd/actionlint/cmd/actionlint"], ldflags: "-s -w" }],
  files: ["actionlint"],
  expectation: "this happens once and takes some seconds",
};

/** The two versions of Helm that users have, by their major version. */
const HELMS = {
  // The build sets the version of Kubernetes for which it renders without a cluster. Helm 4 knows its own.
  3: helm("3", ["pkg/lint/rules", "pkg/chartutil"].map(stampOfHelm3).join(" "), "about 3 minutes"),
  4: helm("4", "", "about 5 minutes"),
} as const;

function stampOfHelm3(library: string): string {
  const [major, minor] = KUBERNETES.newest.version.split(".");
  const flag = (field: string, value = "") => `-X helm.sh/helm/v3/${library}.${field}=${value}`;
  return `${flag("k8sVersionMajor", major)} ${flag("k8sVersionMinor", minor)}`;
}

function helm(major: string, stamps: string, duration: string): Recipe {
  return {
    name: `helm${major}`,
    builds: [
      { module: `helm${major}`, packages: [`helm.sh/helm/v${major}/cmd/helm`], ldflags: `-s -w ${stamps}`.trim() },
    ],
    files: ["helm"],
    expectation: `this happens once and takes ${duration} on 2 cores`,
  };
}

/** `$KUBEBUILDER_ASSETS`. Throws if it is set and lacks a binary, because its user should learn that. */
async function givenAssets(): Promise<{ folder: string; complete: boolean } | undefined> {
  const given = process.env.KUBEBUILDER_ASSETS;
  if (!given) return undefined;
  const folder = resolve(given);
  const missing = await missingFiles(folder, ENVTEST_BINARIES);
  if (missing.length > 0) throw new Error(`KUBEBUILDER_ASSETS=${given} has no ${missing.join(", ")}`);
  return { folder, complete: await holds(folder, BINARIES) };
}

/** A folder of links to these binaries in `built`, and to the others in `given`, so that all of them have one home. */
async function link(given: string, built: string, names: readonly string[]): Promise<string> {
  const key = createHash("sha256")
    .update([given, built, ...names].join("\n"))
    .digest("hex")
    .slice(0, 16);
  const folder = join(cacheFolder(), `assets-${key}`);
  if (await holds(folder, BINARIES)) return folder;
  const temporary = `${folder}.linking-${process.pid}`;
  await mkdir(temporary, { recursive: true });
  for (const name of BINARIES) await symlink(join(names.includes(name) ? built : given, name), join(temporary, name));
  await rm(folder, { recursive: true, force: true });
  await rename(temporary, folder);
  return folder;
}

/** What `SLUICE_TEST_KUBERNETES` says. Throws when that is no word for a version. */
export function wantedKubernetes(): KubernetesChoice {
  const wanted = process.env.SLUICE_TEST_KUBERNETES || "newest";
  if (Object.hasOwn(KUBERNETES, wanted)) return wanted as KubernetesChoice;
  throw new Error(`SLUICE_TEST_KUBERNETES=${wanted}: must be ${Object.keys(KUBERNETES).join(" or ")}`);
}

/**
 * The folder with etcd, kube-apiserver, kube-controller-manager and kubectl, or undefined when something would have to
 * be built first. Throws when KUBEBUILDER_ASSETS is set to a folder that lacks a binary.
 *
 * @param which default: what `SLUICE_TEST_KUBERNETES` says, or else the newest
 */
export async function findAssets(which = wantedKubernetes()): Promise<string | undefined> {
  const newest = await findNewest();
  if (which === "newest" || newest === undefined) return newest;
  const oldest = await recipeFolder(OLDEST_KUBERNETES);
  return (await holds(oldest, OLDEST_KUBERNETES.files)) ? link(newest, oldest, OLDEST_KUBERNETES.files) : undefined;
}

async function findNewest(): Promise<string | undefined> {
  const whole = await recipeFolder(CONTROL_PLANE);
  const built = (await holds(whole, CONTROL_PLANE.files)) ? whole : undefined;
  const given = await givenAssets();
  if (!given) return built;
  if (given.complete) return given.folder;
  const single = await recipeFolder(CONTROLLER_MANAGER);
  if (built) return link(given.folder, built, CONTROLLER_MANAGER.files);
  return (await holds(single, CONTROLLER_MANAGER.files))
    ? link(given.folder, single, CONTROLLER_MANAGER.files)
    : undefined;
}

/** As `findAssets`, but builds what is missing: minutes, once. Throws when a build fails or there is no go command. */
export async function ensureAssets(log: Log, which = wantedKubernetes()): Promise<string> {
  const newest = (await findNewest()) ?? (await buildNewest(log));
  if (which === "newest") return newest;
  return link(newest, await ensureBuilt(OLDEST_KUBERNETES, log), OLDEST_KUBERNETES.files);
}

async function buildNewest(log: Log): Promise<string> {
  const given = await givenAssets();
  if (!given) return ensureBuilt(CONTROL_PLANE, log);
  return link(given.folder, await ensureBuilt(CONTROLLER_MANAGER, log), CONTROLLER_MANAGER.files);
}

/**
 * The rollout-operator that benchmarks compare with, and the file of the CRD that must exist before it works. Built if missing.
 * Throws if the build fails.
 */
export async function ensurePeer(log: Log): Promise<{ binary: string; crd: string }> {
  const folder = await ensureBuilt(PEER, log);
  return { binary: join(folder, "rollout-operator"), crd: join(folder, PEER_CRD) };
}

/** The path of actionlint, which checks workflows of GitHub. Built if missing. Throws if the build fails. */
export async function ensureActionlint(log: Log): Promise<string> {
  return join(await ensureBuilt(ACTIONLINT, log), "actionlint");
}

/** The paths of both versions of Helm, by their major version. Built if missing. Throws if a build fails. */
export async function ensureHelms(log: Log): Promise<Readonly<Record<keyof typeof HELMS, string>>> {
  const [three, four] = [await ensureBuilt(HELMS[3], log), await ensureBuilt(HELMS[4], log)];
  return { 3: join(three, "helm"), 4: join(four, "helm") };
}

/** Whether both versions of Helm have been built. */
export async function hasHelms(): Promise<boolean> {
  const found = await Promise.all(
    Object.values(HELMS).map(async (recipe) => holds(await recipeFolder(recipe), recipe.files)),
  );
  return found.every(Boolean);
}
