/** Pods are asked about the data of other pods before volumes go: a real control plane, and real HTTP servers as pods. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { Ingesters } from "../support/ingester.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

interface Seen {
  readonly metadata: Metadata;
}

const namespace = "elastic";
const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
const claim = "data-db-zone-a-2";

describe("other pods are asked about the data of a pod", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let nodes: Ingesters;
  let server: Server;
  let isDrained = false;
  const over = new AbortController();
  let followed: Promise<void> | undefined;

  before(async () => {
    nodes = await Ingesters.open({
      respond: () => (isDrained ? [200, '{"shards":{"left":0}}'] : [200, '{"shards":{"left":7}}']),
    });
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-drain" });
    const annotations = {
      "sluice.dev/suspend-duration": "4s",
      "sluice.dev/wait-between-removals": "0s",
      "sluice.dev/drain-url": `http://:${nodes.port}/_shards?node={pod}`,
      "sluice.dev/drain-field": "shards.left=0",
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "200" };
    const options = { name: "db", namespace, zones: 1, pods: 3, volumes: ["data"], annotations, podAnnotations };
    const group = await createGroup(controlPlane, options);
    followed = nodes.followPods(api, namespace, over.signal);
    await waitForGroupReady(controlPlane, group);
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

  const read = () => api.get<Seen>(`${claims}/${claim}`).catch(() => undefined);
  const waiting = (guard: string) =>
    eventually(`${claim} saying ${guard}`, 60_000, async () => {
      const message = (await read())?.metadata.annotations?.["sluice.dev/suspend-message"];
      return message?.startsWith(`${guard}: `) ? message : undefined;
    });

  test("a pod goes when another pod agrees, which its volume claim records, and its volume goes when that pod agrees again", async () => {
    await api.patch(`${claims}/${claim}`, { metadata: { annotations: { "sluice.dev/suspend": "true" } } });
    const refused = await waiting("drain-refused");
    assert.match(refused, /db-zone-a-2 stays: db-zone-a-0, asked .* needed: shards.left is 7, and not 0$/);
    assert.equal((await read())?.metadata.annotations?.["sluice.dev/drained-at"], undefined);

    isDrained = true;
    const stamped = await eventually(`${claim} suspended`, 60_000, async () => {
      const { annotations = {} } = (await read())?.metadata ?? {};
      return annotations["sluice.dev/suspend-state"] === "Suspended" ? annotations : undefined;
    });
    isDrained = false;
    assert.ok(
      Date.parse(stamped["sluice.dev/drained-at"] ?? "") <= Date.parse(stamped["sluice.dev/suspended-at"] ?? ""),
    );

    assert.match(await waiting("drain-refused"), /the volumes of db-zone-a-2 stay: db-zone-a-0, asked/);
    const sinceMs = Date.now() - Date.parse(stamped["sluice.dev/suspended-at"] ?? "");
    assert.equal((await read())?.metadata.deletionTimestamp, undefined, `${sinceMs} ms after its stamp`);
    isDrained = true;
    await eventually(`${claim} gone`, 60_000, async () => ((await read()) === undefined ? true : undefined));

    const asked = nodes.calls.filter(({ path }) => path.startsWith("/_shards"));
    assert.ok(asked.length >= 4);
    assert.deepEqual([...new Set(asked.map(({ path }) => path))], ["/_shards?node=db-zone-a-2"]);
    assert.ok(
      asked.every(({ pod }) => pod !== "db-zone-a-2"),
      "the leaving pod is not asked about itself",
    );
  });
});
