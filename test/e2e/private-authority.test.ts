/** Pods that speak https with certificates of a private authority: a real control plane, and real servers as pods. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, createGroup, type FixtureGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { type Authority, createAuthority } from "../support/certificates.ts";
import { applyCrds } from "../support/drain.ts";
import { Ingesters } from "../support/ingester.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

interface Seen {
  readonly metadata: Metadata;
}

const namespace = "secured";
const core = `/api/v1/namespaces/${namespace}`;
const set = `/apis/apps/v1/namespaces/${namespace}/statefulsets/db-zone-a`;
const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const claim = "data-db-zone-a-2";

describe("pods with certificates of a private authority are asked", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let nodes: Ingesters;
  let server: Server;
  let group: FixtureGroup;
  let authority: Authority;
  const over = new AbortController();
  let followed: Promise<void> | undefined;

  before(async () => {
    authority = await createAuthority();
    const secure = await authority.issue(`*.db-zone-a.${namespace}.svc.cluster.local`);
    nodes = await Ingesters.open({ secure, respond: () => [200, '{"shards":{"left":0}}'] });
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-authority" });
    const annotations = {
      "sluice.dev/suspend-duration": "1h",
      "sluice.dev/drain-url": `https://:${nodes.port}/_shards?node={pod}`,
      "sluice.dev/health-question": "http",
      "sluice.dev/health-url": `https://:${nodes.port}/healthy`,
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "200" };
    const options = { name: "db", namespace, zones: 1, pods: 3, volumes: ["data"], annotations, podAnnotations };
    group = await createGroup(controlPlane, options);
    followed = nodes.followPods(api, namespace, over.signal);
    await waitForGroupReady(controlPlane, group);
    await api.post(`${core}/configmaps`, { metadata: { name: "ca" }, data: { "ca.crt": authority.cert } });
    await api.post(`${core}/secrets`, { metadata: { name: "ca" }, stringData: { "ca.crt": "no PEM" } });
    const { kubeconfig } = controlPlane;
    server = await Server.start({ kubeconfig, namespace, settings: { NODE_OPTIONS: nodes.nodeOptions } });
  });

  after(async () => {
    over.abort();
    await followed?.catch(() => undefined);
    await server?.kill();
    await nodes?.close();
    await api?.close();
    await controlPlane?.stop();
  });

  const annotate = (key: string, text: string) => api.patch(set, { metadata: { annotations: { [key]: text } } });
  const asked = (path: string) => nodes.calls.filter((call) => call.path.startsWith(path)).length;
  const annotationOf = async (key: string) =>
    (await api.get<Seen>(`${core}/persistentvolumeclaims/${claim}`)).metadata.annotations?.[`sluice.dev/${key}`];
  const ledgerShows = (pattern: RegExp) =>
    eventually(`a verdict of ${pattern}`, 60_000, async () => {
      const { items } = await api.get<{ items: Seen[] }>(leases);
      return items.some(({ metadata }) => pattern.test(JSON.stringify(metadata.annotations))) ? true : undefined;
    });

  test("about health: a rollout waits with a message about the authority or its Secret, and goes on after the correction", async () => {
    await changeTemplate(controlPlane, group, "db:2");
    await ledgerShows(/health-unknown.*write secret\/NAME or configmap\/NAME, .* into sluice\.dev\/health-authority/);
    await annotate("sluice.dev/health-authority", "secret/ca");
    await ledgerShows(/health-unknown.*ca\.crt of secret\/ca holds no certificate in PEM/);
    assert.equal(asked("/healthy"), 0, "nothing was sent to a pod that is not trusted");
    const data = { "ca.crt": Buffer.from(authority.cert).toString("base64") };
    await api.patch(`${core}/secrets/ca`, { data });
    await eventually("all pods new", 90_000, async () => {
      const { items } = await api.get<{ items: { spec: { containers: { image: string }[] } }[] }>(`${core}/pods`);
      return items.length === 3 && items.every(({ spec }) => spec.containers[0]?.image === "db:2") ? true : undefined;
    });
    assert.ok(asked("/healthy") >= 3);
  });

  test("about a drain: the volume claim has such a message, and the pod goes once a ConfigMap is named", async () => {
    await waitForGroupReady(controlPlane, group);
    const word = { metadata: { annotations: { "sluice.dev/suspend": "true" } } };
    await api.patch(`${core}/persistentvolumeclaims/${claim}`, word);
    const refused = await eventually("it says why", 60_000, async () => {
      const message = await annotationOf("suspend-message");
      return message?.startsWith("drain-unknown: ") ? message : undefined;
    });
    assert.match(refused, /write secret\/NAME or configmap\/NAME, whose ca\.crt .* into sluice\.dev\/drain-authority/);
    assert.equal(asked("/_shards"), 0);
    await annotate("sluice.dev/drain-authority", "configmap/ca");
    await eventually("it is suspended", 90_000, async () =>
      (await annotationOf("suspend-state")) === "Suspended" ? true : undefined,
    );
    assert.ok(asked("/_shards") > 0);
  });
});
