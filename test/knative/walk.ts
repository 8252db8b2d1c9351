/** Every path of every function, walked over a group: what each account needs for all that is to be done. */
import assert from "node:assert/strict";
import { reviewKey } from "../../functions/shared/annotations/table.ts";
import { reviewKeyNames, splitPath } from "../../functions/shared/certificates/review-key.ts";
import { dataOf } from "../../functions/shared/certificates/secret.ts";
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import type { Metadata, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { formatClaims, makeClaim } from "../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { preparedId } from "../../functions/shared/scaling/prepared.ts";
import { type Api, eventually } from "../controlplane/api.ts";
import { changeTemplate, createGroup, groupManifests, waitForGroupReady } from "../controlplane/fixtures.ts";
import { generationOf } from "../support/certificate-world.ts";
import { evict } from "../support/drain-webhook.ts";
import type { Ingesters } from "../support/ingester.ts";
import { isWebhook, webhookAt } from "../support/installed.ts";
import type { Built, Kubectl } from "../support/kubectl.ts";
import { changed, post, tick } from "../support/posted.ts";
import { refuseDeletion } from "../support/refused-deletion.ts";
import type { Scene } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { ofNoNamespace } from "./escape-place.ts";

/** Who plays which part; one process may play them all. */
export interface Cast {
  readonly rollout: Server;
  readonly reviews: Server;
  readonly certificate: Server;
  readonly ledgers: Server;
  readonly delayed: Server;
  readonly follower: Server;
  readonly releaser: Server;
  readonly marker: Server;
  readonly spreader: Server;
  readonly suspender: Server;
  readonly collector: Server;
  readonly holder: Server;
}

export const budgets = "rollout-operator.grafana.com/v1";
/** A group of its own, which vanishes, and StatefulSets of no group, whose ledger is its budget's. */
export const brief = "brief";
export const alone = "alone";
/** Groups whose second zone follows the first: after a delay, and at once. */
const shrunk = "shrunk";
const followerName = "led";
/** A group whose pods are told right before they leave. */
const prepared = "told";

/** What there is besides the scene's group when the functions start. */
export async function furnish({ controlPlane, api, group: { namespace } }: Scene): Promise<void> {
  await createGroup(controlPlane, { name: brief, namespace, zones: 1, pods: 1 });
  const labels = { app: alone };
  for (const { metadata, ...manifest } of groupManifests({ name: alone, namespace, zones: 2, pods: 1, labels })) {
    const ofNoGroup = { ...metadata, labels: { ...labels, name: metadata.name } };
    const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
    await api.post(path, { ...manifest, metadata: ofNoGroup });
  }
  await api.post(`/apis/${budgets}/namespaces/${namespace}/zoneawarepoddisruptionbudgets`, {
    apiVersion: budgets,
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: alone },
    spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
  });
  await api.post(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`, {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name: alone },
    spec: { minAvailable: 2, selector: { matchLabels: labels } },
  });
}

/** Where the certificate is, and which namespaces are served. */
interface Places {
  readonly namespace: string;
  readonly places: readonly string[];
}

/** The certificate is made, the webhooks are registered and trust it, and reviews are asked for, where there are webhooks. */
export async function register(
  { api }: Scene,
  { namespace, places }: Places,
  { kubectl, objects }: { readonly kubectl: Kubectl; readonly objects: readonly Built[] },
  { certificate, reviews }: Cast,
): Promise<void> {
  await reviews.ready();
  const { tlsPort } = reviews;
  const configurations = objects.filter(isWebhook);
  if (configurations.length === 0) return;
  const registered = configurations.map((configuration) => webhookAt(tlsPort, configuration));
  const keyed = places.map((place) => ofNoNamespace(namespace, { [reviewKey.key]: "true" }, place));
  await kubectl.apply([...registered, ...keyed]);
  assert.equal(await post(certificate, tick), 204);
  await eventually("an eviction decided", 30_000, async () => {
    const { message } = await evict(api, namespace, "absent");
    const denied = `admission webhook "pod-eviction.${namespace}.grafana.com" denied the request: `;
    return message.startsWith(denied) ? true : undefined;
  });
}

/** Evictions: rehearsed, allowed, refused by a budget of each kind; and a budget that could not be kept. */
export async function decideReviews({ api, group, controlPlane }: Scene, { reviews }: Cast): Promise<void> {
  const { namespace } = group;
  const [first, second] = group.statefulSets.map((name) => `${name}-0`);
  assert.ok(first && second);
  const rehearse = () => evict(api, namespace, first, "in the body");
  await eventually("an eviction allowed", 60_000, async () => ((await rehearse()).code === 201 ? true : undefined));
  assert.equal((await evict(api, namespace, first)).code, 201);
  // The webhook refuses a rehearsal at once, and does not wait.
  assert.equal((await evict(api, namespace, second, "in the body")).code, 429);
  // The webhook has decided none of these yet: it makes the ledger where it is missing.
  const ledger = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledgerName(`budget:${alone}`)}`;
  await (await api.send("DELETE", ledger)).body.dump();
  const kept = await evict(api, namespace, `${alone}-zone-a-0`);
  assert.deepEqual([kept.code, /PodDisruptionBudget/.test(kept.message)], [429, true], kept.message);
  await api.get(ledger);
  // The metrics tell what all ledgers say when a client asks for them.
  await reviews.metric("sluice_group_last_progress_timestamp_seconds");
  const spec = { maxUnavailable: 1, podNamePartitionRegex: "(", selector: { matchLabels: { name: "absent" } } };
  const path = `/apis/${budgets}/namespaces/${namespace}/zoneawarepoddisruptionbudgets`;
  const budget = { apiVersion: budgets, kind: "ZoneAwarePodDisruptionBudget", metadata: { name: "bad" }, spec };
  const answer = await api.send("POST", path, budget);
  assert.equal(answer.statusCode, 400, await answer.body.text());
  await keepSizes(api, namespace);
  await waitForGroupReady(controlPlane, group);
}

/** A client asks for the status, which has all of its parts. */
export async function show({ group }: Scene, { reviews }: Cast): Promise<void> {
  await eventually("the whole status", 30_000, async () => {
    const { leftOut, groups, events } = await reviews.status();
    assert.deepEqual(leftOut, []);
    return events !== null && groups.some(({ namespace }) => namespace === group.namespace) ? true : undefined;
  });
}

/** Pods answer from now on, until the scene is over. */
export async function answer(scene: Scene, ingesters: Ingesters): Promise<void> {
  const following = new AbortController();
  scene.afterwards(async () => following.abort());
  await ingesters.followPods(scene.api, scene.group.namespace, following.signal);
}

/** A zone that is made smaller after a delay, as its leader was by hand. */
export async function lower(scene: Scene, { delayed }: Cast, ingesters: Ingesters): Promise<void> {
  const annotations = {
    "grafana.com/rollout-delayed-downscale": "1s",
    "grafana.com/rollout-prepare-delayed-downscale-url": ingesters.url,
  };
  await shrink(scene, delayed, shrunk, annotations);
  assert.deepEqual(ingesters.preparedPods(), []);
}

/** A zone that is made smaller as its leader was by hand. */
export function follow(scene: Scene, { follower }: Cast): Promise<void> {
  return shrink(scene, follower, followerName, {});
}

/** The second zone of a group follows the first: a function that has never learnt of it makes its ledger. */
async function shrink(
  scene: Scene,
  server: Server,
  name: string,
  annotations: Readonly<Record<string, string>>,
): Promise<void> {
  const { api, controlPlane, group } = scene;
  const { namespace } = group;
  const [leader, follower] = [`${name}-zone-a`, `${name}-zone-b`];
  const following = { ...annotations, "grafana.com/rollout-downscale-leader": leader };
  const made = await createGroup(controlPlane, { name, namespace, zones: 2, pods: 2, annotations: following });
  await api.patch(scene.statefulSetPath(leader), {
    metadata: { annotations: { "grafana.com/rollout-downscale-leader": null } },
  });
  await waitForGroupReady(controlPlane, made);
  await api.patch(scene.statefulSetPath(leader), { spec: { replicas: 1 } });
  const notify = () => post(server, changed("StatefulSet", namespace, follower));
  const ledger = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledgerName(name)}`;
  // Others that still run watch the namespace: they have learnt of the group as well, and may have made it before.
  await api.delete(ledger, {}).catch(() => undefined);
  assert.equal(await notify(), 204);
  await eventually("its ledger made", 30_000, () => api.get(ledger).catch(() => undefined));
  const left = { [`${name}-zone-z`]: { 0: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  await api.patch(ledger, { metadata: { annotations: { "sluice.dev/reservations": JSON.stringify(left) } } });
  await eventually(
    "the zone made smaller, and no claim left",
    90_000,
    async () => {
      assert.equal(await notify(), 204);
      const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(ledger);
      const { spec } = await scene.statefulSet(follower);
      return spec.replicas === 1 && (metadata.annotations?.["sluice.dev/claims"] ?? "") === "" ? true : undefined;
    },
    500,
  );
}

/** A zone that is made smaller by hand: its pods are told by a review, and its claim is ended by the other function. */
export async function notifyBefore(scene: Scene, { releaser }: Cast, ingesters: Ingesters): Promise<void> {
  const { api, controlPlane, group } = scene;
  const { namespace } = group;
  const labels = { "grafana.com/prepare-downscale": "true", "grafana.com/min-time-between-zones-downscale": "1h" };
  const annotations = {
    "grafana.com/prepare-downscale-http-path": "ingester/prepare-shutdown",
    "grafana.com/prepare-downscale-http-port": String(ingesters.port),
    "grafana.com/last-downscale": "2026-01-01T00:00:00Z",
  };
  const made = await createGroup(controlPlane, { name: prepared, namespace, zones: 2, pods: 2, labels, annotations });
  await waitForGroupReady(controlPlane, made);
  const ledger = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledgerName(prepared)}`;
  const claims = async () => {
    const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(ledger);
    return metadata.annotations?.["sluice.dev/claims"] ?? "";
  };
  // A new ledger permits nothing for ten seconds.
  await eventually(
    "a downscale let through",
    60_000,
    async () => {
      const scaled = api.patch(`${scene.statefulSetPath(`${prepared}-zone-a`)}/scale`, { spec: { replicas: 1 } });
      return scaled.then(
        () => true,
        () => undefined,
      );
    },
    1_000,
  );
  const own = await claims();
  assert.notEqual(own, "");
  const left = { [`${prepared}-zone-z`]: { 0: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  const entries = {
    "sluice.dev/reservations": JSON.stringify(left),
    "sluice.dev/claims": `${own}\n${await neverCame(scene, `${prepared}-zone-b`)}`,
  };
  await api.patch(ledger, { metadata: { annotations: entries } });
  await eventually(
    "its claim ended, and one taken back of a downscale that never came",
    60_000,
    async () => {
      assert.equal(await post(releaser, changed("StatefulSet", namespace, `${prepared}-zone-a`)), 204);
      await post(releaser, tick);
      return (await claims()) === "" ? true : undefined;
    },
    1_000,
  );
}

/** A claim of a downscale that was let through long ago: its pod is told to stay. */
async function neverCame(scene: Scene, zone: string): Promise<string> {
  const { metadata } = await scene.api.get<{ metadata: { uid: string } }>(scene.statefulSetPath(zone));
  const claim = makeClaim({
    id: preparedId(zone),
    kind: "scale-down",
    zone,
    members: [{ first: 1, last: 1 }],
    uids: { [zone]: metadata.uid },
    by: "prepare-downscale",
    stampMs: Date.now() - 120_000,
    phase: "confirmed",
    terms: "asked",
  });
  return formatClaims([claim]);
}

/** The time of that downscale, which stands on the StatefulSet a minute after its last change. */
export async function writeTime(scene: Scene, { releaser }: Cast): Promise<void> {
  await eventually(
    "the time of a downscale written",
    90_000,
    async () => {
      await post(releaser, tick);
      const { metadata } = await scene.statefulSet(`${prepared}-zone-a`);
      return Date.parse(metadata.annotations?.["grafana.com/last-downscale"] ?? "") > Date.parse("2026-01-02")
        ? true
        : undefined;
    },
    1_000,
  );
}

/** A downscale at the scale of each type: what it belongs to is protected, and has to be looked up. */
async function keepSizes(api: Api, namespace: string): Promise<void> {
  const template = { metadata: { labels: { app: "kept" } }, spec: { containers: [{ name: "kept", image: "kept" }] } };
  const spec = { replicas: 1, selector: { matchLabels: { app: "kept" } }, template };
  const metadata = { name: "kept", labels: { "grafana.com/no-downscale": "true" } };
  for (const [plural, kind] of Object.entries({
    statefulsets: "StatefulSet",
    deployments: "Deployment",
    replicasets: "ReplicaSet",
  })) {
    const path = `/apis/apps/v1/namespaces/${namespace}/${plural}`;
    await api.post(path, { apiVersion: "apps/v1", kind, metadata, spec });
    const refusal = new RegExp(`downscale of ${plural}/kept in ${namespace} from 1 to 0 replicas is not allowed`);
    await assert.rejects(api.patch(`${path}/kept/scale`, { spec: { replicas: 0 } }), refusal);
    await api.delete(`${path}/kept`);
  }
}

/** A rollout that events alone drive, and a reservation of a StatefulSet that has left the group in the meantime. */
export async function roll(scene: Scene, { rollout }: Cast): Promise<void> {
  const { controlPlane, api, group, observer, ledgerPath } = scene;
  const posted: Promise<number>[] = [];
  const notify = (kind: string, name: string) => posted.push(post(rollout, changed(kind, group.namespace, name)));
  notify("StatefulSet", "unheard-of");
  const left = { [`${group.name}-zone-z`]: { 0: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  const annotations = { "sluice.dev/reservations": JSON.stringify(left) };
  await api.patch(ledgerPath, { metadata: { annotations } });
  observer.listen((kind, _type, name) => notify(kind, name));
  await changeTemplate(controlPlane, group, "app:2");
  await scene.waitForRollout("app:2");
  await scene.waitForEvent("RolloutCompleted");
  assert.ok((await Promise.all(posted)).every((status) => status === 204));
}

/** A pod that may not be deleted, though there is the right to. */
export async function refuse(scene: Scene, { rollout }: Cast, user: string): Promise<void> {
  const {
    controlPlane,
    group: { namespace },
  } = scene;
  await refuseDeletion(scene, `${brief}-zone-a-0`, { user, reason: "Invalid" });
  await changeTemplate(controlPlane, { name: brief, namespace, statefulSets: [`${brief}-zone-a`], pods: 1 }, "app:2");
  assert.equal(await post(rollout, changed("StatefulSet", namespace, `${brief}-zone-a`)), 204);
  const { message } = await scene.waitForEvent("DeleteRefused");
  assert.match(message, /this pod holds the last copy/);
}

/** A RabbitmqCluster, and a StatefulSet that opts in, are deleted: each is held until its pods have their label. */
export async function letGo(scene: Scene, { marker }: Cast): Promise<void> {
  const { api, controlPlane, group } = scene;
  const { namespace } = group;
  const clusters = `/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters`;
  const cluster = {
    apiVersion: "rabbitmq.com/v1beta1",
    kind: "RabbitmqCluster",
    metadata: { name: "orders", annotations: { "sluice.dev/skip-label": "skipPreStopChecks" } },
    spec: {},
  };
  await api.post(clusters, cluster);
  const annotations = { "sluice.dev/skip-label": "sluice.dev/let-go" };
  const made = await createGroup(controlPlane, { name: "marked", namespace, zones: 1, pods: 2, annotations });
  await waitForGroupReady(controlPlane, made);
  const paths = [`${clusters}/orders`, scene.statefulSetPath("marked-zone-a")];
  const notify = async () => {
    await post(marker, changed("RabbitmqCluster", namespace, "orders"));
    await post(marker, tick);
  };
  const ask = (path: string) => api.get<{ metadata: Metadata }>(path).catch(() => undefined);
  for (const path of paths) {
    const blocked = async () => {
      await notify();
      return (await ask(path))?.metadata.finalizers?.includes("sluice.dev/release-prestop") ? true : undefined;
    };
    await eventually("our finalizer", 60_000, blocked, 500);
    await api.delete(path, { propagationPolicy: "Background" });
    const letGo = async () => {
      await notify();
      return (await ask(path)) === undefined ? true : undefined;
    };
    await eventually("an owner let go", 60_000, letGo, 500);
  }
}

/** A certificate of rollout-operator's, which is soon over, is taken over and renewed. */
export async function renew({ api, group: { namespace } }: Scene, { certificate }: Cast): Promise<void> {
  const path = secretPath(namespace);
  const old = dataOf("presented", await generationOf(Date.now(), { ageMs: 40_000, dnsNames: ["localhost"] }));
  await api.patch(path, { data: old });
  assert.equal(await post(certificate, tick), 204);
  await eventually("another certificate presented", 60_000, async () => {
    const { data } = await api.get<{ data: Record<string, string> }>(path);
    return data.cert !== (old as Record<string, string>).cert && data["next-cert"] === undefined ? true : undefined;
  });
}

/** The review key of the Secret comes into a path of each namespace. */
export async function showKey({ api }: Scene, { namespace, places }: Places): Promise<void> {
  const { data } = await api.get<{ data: Record<string, string> }>(secretPath(namespace));
  const key = Buffer.from(data[reviewKeyNames.current] ?? "", "base64").toString("hex");
  const webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
  for (const place of places)
    await eventually(`its review key in a path of ${place}`, 60_000, async () => {
      const configuration = await api.get<WebhookConfigurationObject>(`${webhooks}/pod-eviction-${place}`);
      return splitPath(configuration.webhooks?.[0]?.clientConfig.service?.path ?? "").key === key ? true : undefined;
    });
}

function secretPath(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/secrets/${usualSecretName}`;
}
