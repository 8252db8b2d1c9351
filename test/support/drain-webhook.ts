/** What sends evictions to Sluice: a certificate, and a webhook configuration that trusts it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Api, eventually } from "../controlplane/api.ts";
import { createAuthority } from "./certificates.ts";
import type { Scene } from "./scene.ts";
import type { Server } from "./server.ts";

/** A certificate in files, as a server gets it. */
export interface Presented {
  /** Certificate of the authority in PEM. */
  readonly ca: string;
  /** Settings of a server that presents this certificate on a port of its own choice. */
  readonly settings: Readonly<Record<string, string>>;
  /** Removes the files. */
  remove(): Promise<void>;
}

export async function presentCertificate(): Promise<Presented> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-eviction-"));
  const authority = await createAuthority();
  const { cert, key } = await authority.issue();
  const files = { TLS_CERT_FILE: join(folder, "tls.crt"), TLS_KEY_FILE: join(folder, "tls.key") };
  await writeFile(files.TLS_CERT_FILE, cert);
  await writeFile(files.TLS_KEY_FILE, key);
  return {
    ca: authority.cert,
    settings: { TLS_PORT: "0", ...files },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Ours is mutating, because it pins the pod's uid. Users of rollout-operator have a validating one. */
export type WebhookKind = "Mutating" | "Validating";

const paths = { Mutating: "/pods/eviction/pin", Validating: "/admission/pod-eviction" };

export function webhookName(namespace: string): string {
  return `pod-eviction-${namespace}.grafana.com`;
}

function configuration(namespace: string, kind: WebhookKind, port: number, ca: string, path = paths[kind]): object {
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${kind}WebhookConfiguration`,
    metadata: { name: `pod-eviction-${namespace}` },
    webhooks: [
      {
        name: webhookName(namespace),
        clientConfig: {
          url: `https://127.0.0.1:${port}${path}`,
          caBundle: Buffer.from(ca).toString("base64"),
        },
        rules: [
          {
            apiGroups: [""],
            apiVersions: ["v1"],
            operations: ["CREATE"],
            resources: ["pods/eviction"],
            scope: "Namespaced",
          },
        ],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        admissionReviewVersions: ["v1"],
        failurePolicy: "Fail",
        sideEffects: kind === "Mutating" ? "NoneOnDryRun" : "None",
        timeoutSeconds: 10,
      },
    ],
  };
}

/** The API server's answer to an eviction. */
export interface EvictionAnswer {
  readonly code: number;
  readonly message: string;
  /** Types of the causes in the status. */
  readonly causes: readonly string[];
}

/** Asks the API server once to evict a pod. `dryRun`: where clients write it. */
export async function evict(
  api: Api,
  namespace: string,
  pod: string,
  dryRun?: "in the body" | "in the query",
): Promise<EvictionAnswer> {
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/eviction`;
  const answer = await api.send("POST", dryRun === "in the query" ? `${path}?dryRun=All` : path, {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name: pod, namespace },
    ...(dryRun === "in the body" ? { deleteOptions: { dryRun: ["All"] } } : {}),
  });
  const status = (await answer.body.json()) as { message?: string; details?: { causes?: { reason: string }[] } };
  const causes = (status.details?.causes ?? []).map(({ reason }) => reason);
  return { code: answer.statusCode, message: status.message ?? "", causes };
}

/** Registers a server for the evictions of one namespace. Resolves when the API server asks it. */
export async function registerWebhook(
  api: Api,
  namespace: string,
  kind: WebhookKind,
  { port, ca, path }: { readonly port: number; readonly ca: string; readonly path?: string },
): Promise<void> {
  await api.post(configurations(kind), configuration(namespace, kind, port, ca, path));
  await eventually("the webhook called", 30_000, async () => {
    const { message } = await evict(api, namespace, "no-such-pod");
    return message.startsWith(`admission webhook "${webhookName(namespace)}" denied the request`) ? true : undefined;
  });
}

/** Removes the registration. Resolves when the API server no longer asks the webhook. */
export async function removeWebhook(api: Api, namespace: string, kind: WebhookKind): Promise<void> {
  await api.delete(`${configurations(kind)}/pod-eviction-${namespace}`);
  await eventually("the webhook forgotten", 30_000, async () => {
    const { message } = await evict(api, namespace, "no-such-pod");
    return message === 'pods "no-such-pod" not found' ? true : undefined;
  });
}

function configurations(kind: WebhookKind): string {
  return `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}webhookconfigurations`;
}

export interface GuardOptions {
  readonly kind?: WebhookKind;
  /** More settings for the server. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Default: the administrator's. */
  readonly kubeconfig?: string;
}

/**
 * Starts a server for the scene and registers it for the evictions of its namespace. Resolves when it may allow them: for ten
 * seconds after it has first seen the group's ledger it does not (rule R4), and tests would measure that time instead.
 */
export async function guardEvictions(
  scene: Scene,
  certificate: Presented,
  { kind = "Mutating", settings, kubeconfig }: GuardOptions = {},
): Promise<Server> {
  const { api, group, ledgerPath } = scene;
  const user = kubeconfig === undefined ? {} : { kubeconfig };
  const server = await scene.serve({ ...certificate.settings, ...settings }, user);
  await server.ready();
  await registerWebhook(api, group.namespace, kind, { port: server.tlsPort, ca: certificate.ca });
  await eventually("the ledger made", 30_000, () => api.get(ledgerPath));
  const rehearse = () => evict(api, group.namespace, `${group.statefulSets[0]}-0`, "in the body");
  await eventually(
    "an eviction allowed",
    60_000,
    async () => ((await rehearse()).code === 201 ? true : undefined),
    250,
  );
  return server;
}
