/** What benchmarks of evictions need besides the group: a budget, a certificate, and a webhook that the API server knows. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "undici";
import { evaluateEviction } from "../../../functions/evaluate-eviction/function.ts";
import { Api, ApiError, eventually } from "../../controlplane/api.ts";
import { createAuthority } from "../../support/certificates.ts";
import { evictionOf } from "../../support/review.ts";
import type { Contender } from "../contenders.ts";
import { type Scene, userAgent, withContender } from "../trial.ts";

/** A contender that answers reviews of a group with a budget. */
export interface Setting extends Scene {
  readonly running: Contender;
  /** https://127.0.0.1:PORT */
  readonly reviewsUrl: string;
  /** Certificate of its authority in PEM. */
  readonly ca: string;
  /** Every pod, zone after zone, by ordinal. */
  readonly pods: readonly Pod[];
}

export interface Pod {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly zone: string;
}

/** Path to which rollout-operator's users send reviews of evictions. Both contenders answer there. */
export const reviewPath = "/admission/pod-eviction";

/**
 * A function that has not read a ledger before takes it for new until it is 41 s old: 10 s, 1 s because creation times have
 * whole seconds, and 30 s because clocks may differ. Users' ledgers are older. The peer rests as long, so that the control
 * plane is as quiet for both.
 */
export const restMs = 43_000;

/** How evictions are registered: the peer's webhook is validating, and ours is mutating, so that it can pin the pod's uid. */
const registrations = {
  peer: { kind: "ValidatingWebhookConfiguration", paths: [reviewPath], sideEffects: "None", timeoutSeconds: 10 },
  // An older Sluice pins at the second path.
  sluice: {
    kind: "MutatingWebhookConfiguration",
    paths: ["/pods/eviction/pin", "/pods/eviction"],
    sideEffects: "NoneOnDryRun",
    timeoutSeconds: evaluateEviction.registration.timeoutSeconds,
  },
} as const;

/** Creates a budget for the group, starts the contender with a certificate of its own, and runs `work`. */
export async function withSetting<T>(
  scene: Scene,
  work: (setting: Setting) => Promise<T>,
  settings?: Readonly<Record<string, string>>,
): Promise<T> {
  const { controlPlane, group, size } = scene;
  await using(scene, (api) =>
    api.post(`/apis/rollout-operator.grafana.com/v1/namespaces/${group.namespace}/zoneawarepoddisruptionbudgets`, {
      apiVersion: "rollout-operator.grafana.com/v1",
      kind: "ZoneAwarePodDisruptionBudget",
      metadata: { name: group.name, namespace: group.namespace },
      spec: { maxUnavailable: size.budget, selector: { matchLabels: { "rollout-group": group.name } } },
    }),
  );
  const pods = await listPods(scene);
  const authority = await createAuthority();
  const { cert, key } = await authority.issue();
  const certFile = join(controlPlane.directory, `${group.namespace}.crt`);
  const keyFile = join(controlPlane.directory, `${group.namespace}.key`);
  await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key, { mode: 0o600 })]);
  return withContender(scene, { pair: { certFile, keyFile }, restMs, settings }, (running) => {
    if (running.reviewsUrl === undefined) throw new Error(`${running.name} answers no reviews`);
    return work({ ...scene, running, reviewsUrl: running.reviewsUrl, ca: authority.cert, pods });
  });
}

/** For parts that count answers: the contender answers each review at once. */
export const refusing = { EVICTION_WAIT: "0" };

/** Registers the contender's webhook while `work` runs. Resolves when the API server no longer asks it. */
export async function withWebhook<T>(setting: Setting, work: () => Promise<T>): Promise<T> {
  const { contender, group, reviewsUrl, ca } = setting;
  const { kind, paths, sideEffects, timeoutSeconds } = registrations[contender.startsWith("peer-") ? "peer" : "sluice"];
  const path = await firstKnown(setting, paths);
  const name = `pod-eviction-${group.namespace}`;
  const collection = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}s`;
  return using(setting, async (api) => {
    await api.post(collection, {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind,
      metadata: { name },
      webhooks: [
        {
          name: `${name}.grafana.com`,
          clientConfig: { url: `${reviewsUrl}${path}`, caBundle: Buffer.from(ca).toString("base64") },
          rules: [
            {
              ...{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"] },
              ...{ resources: ["pods/eviction"], scope: "Namespaced" },
            },
          ],
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": group.namespace } },
          ...{ admissionReviewVersions: ["v1"], failurePolicy: "Fail", sideEffects, timeoutSeconds },
        },
      ],
    });
    try {
      await whenCalled(api, group.namespace, name);
      return await work();
    } finally {
      await api.delete(`${collection}/${name}`);
    }
  });
}

/** The first of these paths that the contender knows. The last one is taken without asking. */
async function firstKnown({ reviewsUrl, ca }: Setting, paths: readonly string[]): Promise<string> {
  const client = new Client(reviewsUrl, { connect: { ca } });
  try {
    for (const path of paths.slice(0, -1)) {
      const { statusCode, body } = await client.request({ method: "GET", path });
      await body.dump();
      if (statusCode !== 404) return path;
    }
    return paths.at(-1) ?? "";
  } finally {
    await client.close();
  }
}

/** Waits until the API server has learnt of the webhook, by asking for a pod that does not exist. */
async function whenCalled(api: Api, namespace: string, webhook: string): Promise<void> {
  const absent = { namespace, name: "absent" };
  await eventually(`webhook ${webhook} called`, 30_000, () =>
    api.post(`/api/v1/namespaces/${namespace}/pods/${absent.name}/eviction`, evictionOf(absent)).then(
      () => undefined,
      (error: unknown) => (error instanceof ApiError && error.message.includes(webhook) ? true : undefined),
    ),
  );
}

/** Number of these pods that a Lease of the group's namespace holds, by uid: allowances that outlive the process. */
export function countDurable(scene: Scene, uids: readonly string[]): Promise<number> {
  return using(scene, async (api) => {
    const leases = await api.get(`/apis/coordination.k8s.io/v1/namespaces/${scene.group.namespace}/leases`);
    const text = JSON.stringify(leases);
    return uids.filter((uid) => text.includes(uid)).length;
  });
}

/** Every pod of a scene's group, zone after zone, by ordinal. */
export async function listPods(scene: Scene): Promise<Pod[]> {
  const { namespace } = scene.group;
  const { items } = await using(scene, (api) =>
    api.get<{ items: { metadata: { name: string; uid: string; labels: Record<string, string> } }[] }>(
      `/api/v1/namespaces/${namespace}/pods`,
    ),
  );
  const ordinalOf = (name: string) => Number(name.slice(name.lastIndexOf("-") + 1));
  return items
    .map(({ metadata: { name, uid, labels } }) => ({ name, namespace, uid, zone: labels.zone ?? "" }))
    .sort((one, other) => one.zone.localeCompare(other.zone) || ordinalOf(one.name) - ordinalOf(other.name));
}

async function using<T>({ controlPlane }: Scene, work: (api: Api) => Promise<T>): Promise<T> {
  const api = await Api.open(controlPlane, { userAgent, connections: 2 });
  try {
    return await work(api);
  } finally {
    await api.close();
  }
}
