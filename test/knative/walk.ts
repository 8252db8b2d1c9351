/** Every path of every function, walked over a group: what each account needs for all that is to be done. */
import assert from "node:assert/strict";
import { dataOf, usualSecretName } from "../../functions/shared/certificates.ts";
import { eventually } from "../controlplane/api.ts";
import { changeTemplate, createGroup, groupManifests, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict } from "../e2e/drain-webhook.ts";
import type { Scene } from "../e2e/scene.ts";
import type { Server } from "../e2e/server.ts";
import { generationOf } from "../unit/certificate-world.ts";
import { isWebhook, webhookAt } from "./installed.ts";
import type { Built, Kubectl } from "./kubectl.ts";
import { changed, post, tick } from "./posted.ts";

/** Who plays which part; one process may play them all. */
export interface Cast {
  readonly rollout: Server;
  readonly reviews: Server;
  readonly certificate: Server;
}

const budgets = "rollout-operator.grafana.com/v1";
/** A group of its own, which vanishes, and a StatefulSet of no group, whose ledger is its budget's. */
const brief = "brief";
const alone = "alone";

/** What there is besides the scene's group when the functions start. */
export async function furnish({ controlPlane, api, group: { namespace } }: Scene): Promise<void> {
  await createGroup(controlPlane, { name: brief, namespace, zones: 1, pods: 1 });
  const [manifest] = groupManifests({ name: alone, namespace, zones: 1, pods: 1 });
  assert.ok(manifest);
  const labels = { name: manifest.metadata.name };
  const metadata = { ...manifest.metadata, labels };
  await api.post(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, { ...manifest, metadata });
  await api.post(`/apis/${budgets}/namespaces/${namespace}/zoneawarepoddisruptionbudgets`, {
    apiVersion: budgets,
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: alone },
    spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
  });
}

/** The certificate is made, the webhooks are registered and trust it, and reviews are asked for. */
export async function register(
  { api, group: { namespace } }: Scene,
  kubectl: Kubectl,
  objects: readonly Built[],
  { certificate, reviews }: Cast,
): Promise<void> {
  await reviews.ready();
  const { tlsPort } = reviews;
  await kubectl.apply(objects.filter(isWebhook).map((configuration) => webhookAt(tlsPort, configuration)));
  assert.equal(await post(certificate, tick), 204);
  await eventually("an eviction judged", 30_000, async () => {
    const { message } = await evict(api, namespace, "nobody");
    const denied = `admission webhook "pod-eviction.${namespace}.grafana.com" denied the request: `;
    return message.startsWith(denied) ? true : undefined;
  });
}

/** Evictions: rehearsed, allowed, refused; and a budget that could not be kept. */
export async function judge({ api, group, controlPlane }: Scene): Promise<void> {
  const { namespace } = group;
  const [first, second] = group.statefulSets.map((name) => `${name}-0`);
  assert.ok(first && second);
  const rehearse = () => evict(api, namespace, first, "in the body");
  await eventually("an eviction allowed", 60_000, async () => ((await rehearse()).code === 201 ? true : undefined));
  assert.equal((await evict(api, namespace, first)).code, 201);
  assert.equal((await evict(api, namespace, second)).code, 429);
  const spec = { maxUnavailable: 1, podNamePartitionRegex: "(", selector: { matchLabels: { name: "nobody" } } };
  const path = `/apis/${budgets}/namespaces/${namespace}/zoneawarepoddisruptionbudgets`;
  const budget = { apiVersion: budgets, kind: "ZoneAwarePodDisruptionBudget", metadata: { name: "bad" }, spec };
  const answer = await api.send("POST", path, budget);
  assert.equal(answer.statusCode, 400, await answer.body.text());
  await waitForGroupReady(controlPlane, group);
}

/** A rollout that events alone drive, and a reservation of a StatefulSet that has left the group in the meantime. */
export async function roll(scene: Scene, { rollout }: Cast): Promise<void> {
  const { controlPlane, api, group, observer, ledgerPath } = scene;
  const posted: Promise<number>[] = [];
  const tell = (kind: string, name: string) => posted.push(post(rollout, changed(kind, group.namespace, name)));
  tell("StatefulSet", "unheard-of");
  const left = { [`${group.name}-zone-z`]: { 0: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  const annotations = { "sluice.dev/reservations": JSON.stringify(left) };
  await api.patch(ledgerPath, { metadata: { annotations } });
  observer.listen((kind, _type, name) => tell(kind, name));
  await changeTemplate(controlPlane, group, "app:2");
  await scene.waitForRollout("app:2");
  await scene.waitForEvent("RolloutCompleted");
  assert.ok((await Promise.all(posted)).every((status) => status === 204));
}

/** Groups go, and their ledgers after them. */
export async function vanish({ api, group: { namespace } }: Scene, { rollout }: Cast): Promise<void> {
  const ledgers = async () => {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    const { items } = await api.get<{ items: { metadata: { annotations?: Record<string, string> } }[] }>(path);
    return items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  };
  const doomed = [brief, `budget:${alone}`];
  await eventually("their ledgers made", 30_000, async () => {
    const there = await ledgers();
    return doomed.every((group) => there.includes(group)) ? true : undefined;
  });
  await api.delete(`/apis/apps/v1/namespaces/${namespace}/statefulsets/${brief}-zone-a`);
  await api.delete(`/apis/${budgets}/namespaces/${namespace}/zoneawarepoddisruptionbudgets/${alone}`);
  await eventually("their ledgers gone", 60_000, async () => {
    await post(rollout, tick);
    const there = await ledgers();
    return doomed.some((group) => there.includes(group)) ? undefined : true;
  });
}

/** A certificate of rollout-operator's, which is soon over, is taken over and renewed. */
export async function renew({ api, group: { namespace } }: Scene, { certificate }: Cast): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/secrets/${usualSecretName}`;
  const old = dataOf("presented", await generationOf(Date.now(), { ageMs: 40_000, dnsNames: ["localhost"] }));
  await api.patch(path, { data: old });
  assert.equal(await post(certificate, tick), 204);
  await eventually("another certificate presented", 60_000, async () => {
    const { data } = await api.get<{ data: Record<string, string> }>(path);
    return data.cert !== (old as Record<string, string>).cert && data["next-cert"] === undefined ? true : undefined;
  });
}
