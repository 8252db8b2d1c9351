/** The processes of an installed overlay: their rendered settings, their own account, and what that account asked for. */
import { join } from "node:path";
import { reviewService } from "../../knative/render/object.ts";
import type { Api } from "../controlplane/api.ts";
import { readAudit } from "../controlplane/audit.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import type { Built } from "./kubectl.ts";

/** A Deployment, a DaemonSet or a Knative Service. */
interface Workload extends Built {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly serviceAccountName: string;
        readonly containers: readonly { readonly env: readonly { readonly name: string; readonly value: string }[] }[];
      };
    };
  };
}

interface WebhookConfiguration extends Built {
  readonly webhooks: readonly { readonly clientConfig: { readonly service: { readonly path: string } } }[];
}

export function isWorkload(object: Built): object is Workload {
  return /^(Deployment|DaemonSet)$/.test(object.kind) || object.apiVersion.startsWith("serving.knative.dev/");
}

export function isWebhook(object: Built): object is WebhookConfiguration {
  return object.kind.endsWith("WebhookConfiguration");
}

/** The webhooks with the address of a server, because no network of services exists here. */
export function webhookAt(port: number, configuration: WebhookConfiguration): Built {
  const webhooks = configuration.webhooks.map(({ clientConfig, ...webhook }) => ({
    ...webhook,
    clientConfig: { url: `https://localhost:${port}${clientConfig.service.path}` },
  }));
  return { ...configuration, webhooks } as Built;
}

/** A Service whose name the API server resolves to this machine, because its own address does not answer here. */
export const serviceOfThisMachine = {
  target: { kind: "Service", version: "v1", name: reviewService },
  patch: JSON.stringify([{ op: "replace", path: "/spec", value: { type: "ExternalName", externalName: "localhost" } }]),
};

/** The same webhooks, behind {@link serviceOfThisMachine}. */
export function webhookBehind(port: number, configuration: WebhookConfiguration): Built {
  const webhooks = configuration.webhooks.map(({ clientConfig, ...webhook }) => ({
    ...webhook,
    clientConfig: { service: { ...clientConfig.service, port } },
  }));
  return { ...configuration, webhooks } as Built;
}

/** The single workload of that name, with its environment. What its pods have from the downward API is not in it. */
export function workloadOf(objects: readonly Built[], name: string) {
  const workload = objects.filter(isWorkload).find(({ metadata }) => metadata.name === name);
  if (workload === undefined) throw new Error(`there is no workload ${name}`);
  const { serviceAccountName: account, containers } = workload.spec.template.spec;
  const env = containers.flatMap((container) => container.env);
  const written = env.filter(({ value }) => value !== undefined);
  // In a cluster each pod has ports of its own.
  const onMachine = (value: unknown) => String(value).replace(/^127\.0\.0\.1:\d+$/, "127.0.0.1:0");
  const settings = Object.fromEntries(written.map(({ name: variable, value }) => [variable, onMachine(value)]));
  return { account, settings };
}

/** Resolves to a token of an existing account. */
export async function tokenOf(api: Api, namespace: string, account: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
  const { status } = await api.post<{ status: { token: string } }>(path, request);
  return status.token;
}

/** Resolves to the path of a kubeconfig for an existing account. Its context names the namespace, as a pod's does. */
export async function kubeconfigOf(controlPlane: ControlPlane, api: Api, namespace: string, account: string) {
  const token = await tokenOf(api, namespace, account);
  const kubeconfig = join(controlPlane.directory, `${namespace}-${account}.kubeconfig`);
  await writeKubeconfig(kubeconfig, controlPlane.url, token, controlPlane.caFile, namespace);
  return kubeconfig;
}

/** The requests of an account to the API server as `verb resource`, and those of them that were forbidden. */
export async function askedBy(controlPlane: ControlPlane, from: number, namespace: string, account: string) {
  const asked = new Set<string>();
  const forbidden = new Set<string>();
  const user = `system:serviceaccount:${namespace}:${account}`;
  for await (const entry of readAudit(controlPlane.auditLog, { from }, () => {})) {
    if (entry.user !== user) continue;
    asked.add(`${entry.verb} ${entry.resource}`);
    if (entry.code === 401 || entry.code === 403) forbidden.add(`${entry.verb} ${entry.resource}`);
  }
  return { asked: [...asked].sort(), forbidden: [...forbidden].sort() };
}
