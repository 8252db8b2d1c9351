import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Paths in a control plane's folder. */
export interface Layout {
  readonly directory: string;
  readonly kubeconfig: string;
  readonly controllerManagerKubeconfig: string;
  readonly auditLog: string;
  readonly auditPolicy: string;
  readonly tokens: string;
  readonly serviceAccountKey: string;
  readonly serviceAccountPublicKey: string;
  readonly certificates: string;
  /** The API server makes it at its first start: its certificate, followed by the authority that signed it. */
  readonly caFile: string;
  readonly etcdData: string;
  readonly logs: string;
  /** What `connectTo` reads. */
  readonly state: string;
}

/** One bearer token for each of the three clients of the API server, so that the audit log distinguishes them. */
export interface Tokens {
  readonly admin: string;
  readonly controllerManager: string;
  readonly kubelet: string;
}

/**
 * One line for each request. Watches would have two, when they start and when they end; the first is kept, so that a
 * watch is visible while it lasts.
 */
const AUDIT_RULES = [
  { level: "Metadata", verbs: ["watch"], omitStages: ["RequestReceived", "ResponseComplete"] },
  { level: "Metadata", omitStages: ["RequestReceived", "ResponseStarted"] },
];

/** Resources of an API group, whose subresources are named like `statefulsets/scale`. */
export interface AuditedResources {
  readonly group: string;
  readonly resources: readonly string[];
}

function auditPolicy(answersOf: readonly AuditedResources[]): object {
  const answered = {
    level: "RequestResponse",
    verbs: ["create", "update", "patch"],
    resources: answersOf,
    omitManagedFields: true,
    omitStages: ["RequestReceived", "ResponseStarted"],
  };
  // A rule without resources covers all of them.
  const rules = answersOf.length === 0 ? AUDIT_RULES : [answered, ...AUDIT_RULES];
  return { apiVersion: "audit.k8s.io/v1", kind: "Policy", rules };
}

export function layoutOf(directory: string): Layout {
  const certificates = join(directory, "certificates");
  return {
    directory,
    kubeconfig: join(directory, "kubeconfig"),
    controllerManagerKubeconfig: join(directory, "controller-manager.kubeconfig"),
    auditLog: join(directory, "audit.log"),
    auditPolicy: join(directory, "audit-policy.json"),
    tokens: join(directory, "tokens.csv"),
    serviceAccountKey: join(directory, "service-account.key"),
    serviceAccountPublicKey: join(directory, "service-account.pub"),
    certificates,
    caFile: join(certificates, "apiserver.crt"),
    etcdData: join(directory, "etcd"),
    logs: join(directory, "logs"),
    state: join(directory, "controlplane.json"),
  };
}

/**
 * Writes the files that the processes read. Tokens and keys of an earlier start in the same folder stay valid.
 *
 * @param answersOf the users whose writes are in the audit log with their answers
 */
export async function writeConfiguration(layout: Layout, answersOf: readonly AuditedResources[] = []): Promise<Tokens> {
  for (const folder of [layout.directory, layout.certificates, layout.logs]) await mkdir(folder, { recursive: true });
  // etcd warns about a data folder that others can read.
  await mkdir(layout.etcdData, { recursive: true, mode: 0o700 });
  await writeFile(layout.auditPolicy, JSON.stringify(auditPolicy(answersOf), undefined, 2));
  await writeFile(layout.auditLog, "", { flag: "a" });
  await ensureServiceAccountKeys(layout);
  return ensureTokens(layout.tokens);
}

async function ensureServiceAccountKeys(layout: Layout): Promise<void> {
  if ((await readIfThere(layout.serviceAccountPublicKey)) !== undefined) return;
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  await writeFile(layout.serviceAccountKey, privateKey.export({ type: "sec1", format: "pem" }), { mode: 0o600 });
  await writeFile(layout.serviceAccountPublicKey, publicKey.export({ type: "spki", format: "pem" }));
}

async function ensureTokens(path: string): Promise<Tokens> {
  const users = ["admin", "system:kube-controller-manager", "test-kubelet"];
  let text = await readIfThere(path);
  if (text === undefined) {
    text = users.map((user) => `${randomBytes(24).toString("hex")},${user},${user},system:masters\n`).join("");
    await writeFile(path, text, { mode: 0o600 });
  }
  const [admin, controllerManager, kubelet] = text.split("\n").map((line) => line.split(",")[0]);
  if (!admin || !controllerManager || !kubelet) throw new Error(`${path} does not hold three tokens: remove it`);
  return { admin, controllerManager, kubelet };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Writes a kubeconfig as JSON, which is also YAML. It has the CA itself, so that it can be copied elsewhere. A process that
 * reads the path meanwhile sees the old file or the new one, and no part of one.
 */
export async function writeKubeconfig(
  path: string,
  url: string,
  token: string,
  caFile: string,
  namespace = "default",
): Promise<void> {
  const ca = await readFile(caFile);
  const name = "sluice-test";
  const kubeconfig = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server: url, "certificate-authority-data": ca.toString("base64") } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
    "current-context": name,
  };
  // Replicas that start at once share the file, and one of them reads it while it is written for the next.
  const whole = `${path}.${randomUUID()}`;
  await writeFile(whole, `${JSON.stringify(kubeconfig, undefined, 2)}\n`, { mode: 0o600 });
  await rename(whole, path);
}
