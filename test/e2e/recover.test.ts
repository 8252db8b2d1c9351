/** Suspended volumes as a user sees them: the real kubectl, the plugin as it is shipped, a real API server. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { Plugin } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

interface Seen {
  readonly metadata: Metadata;
}

const namespace = "mimir";
const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
const claim = "data-db-zone-a-2";

describe("kubectl sluice suspended and recover", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let plugin: Plugin;
  let server: Server;

  before(async () => {
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-recover" });
    plugin = await Plugin.build(controlPlane);
    const annotations = { "sluice.dev/suspend-duration": "7d" };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "200" };
    const options = { name: "db", namespace, zones: 1, pods: 3, volumes: ["data"], annotations, podAnnotations };
    await waitForGroupReady(controlPlane, await createGroup(controlPlane, options));
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
  });

  after(async () => {
    await server?.kill();
    await plugin?.remove();
    await api?.close();
    await controlPlane?.stop();
  });

  const sluice = (line: string) => plugin.sluice(`${line} -n ${namespace}`);
  const annotate = (name: string, annotations: Readonly<Record<string, string>>) =>
    api.patch(`${claims}/${name}`, { metadata: { annotations } });
  const suspended = (name: string) =>
    eventually(`${name} suspended`, 60_000, async () => {
      const one = await api.get<Seen>(`${claims}/${name}`);
      return one.metadata.annotations?.["sluice.dev/suspend-state"] === "Suspended" ? one.metadata : undefined;
    });

  test("a suspended volume is shown with its time, and comes back with the same volume claim", async (context) => {
    const nothing = await sluice("suspended");
    assert.deepEqual([nothing.code, nothing.stdout], [0, ""]);
    assert.match(nothing.stderr, /no volume claim is suspended in namespace mimir/);
    await annotate(claim, { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() });
    const { uid } = await suspended(claim);
    const shown = await sluice("suspended db");
    context.diagnostic(shown.stdout);
    assert.match(shown.stdout, /^CLAIM +ZONE +STATE +FOR +LEFT +SIZE +WAITS$/m);
    assert.match(shown.stdout, /^data-db-zone-a-2 +db-zone-a +Suspended +\d+ s +7 d +- +suspended$/m);
    const json = JSON.parse((await sluice("suspended -o json")).stdout);
    assert.deepEqual([json.claims.length, json.claims[0].claim, json.claims[0].uid], [1, claim, uid]);
    const yaml = await sluice("suspended -o yaml");
    assert.match(yaml.stdout, /^ *- claim: data-db-zone-a-2$/m, yaml.stderr);
    const rehearsed = await sluice(`recover ${claim} --dry-run`);
    assert.deepEqual([rehearsed.code, rehearsed.stdout], [0, `${claim}: would be recovered\n`]);
    const wantedMs = Date.now();
    const back = await sluice(`recover ${claim} --wait`);
    context.diagnostic(`${back.stdout.trim()}; ${((Date.now() - wantedMs) / 1000).toFixed(1)} s for the command`);
    assert.match(back.stdout, /^data-db-zone-a-2: its pod is ready with the same volume, after \d+ s\n$/);
    assert.equal((await api.get<Seen>(`${claims}/${claim}`)).metadata.uid, uid);
    const pod = await api.get<Seen>(`/api/v1/namespaces/${namespace}/pods/db-zone-a-2`);
    assert.equal(pod.metadata.deletionTimestamp, undefined);
    const again = await sluice(`recover ${claim}`);
    assert.deepEqual([again.code, again.stdout], [1, ""]);
    assert.match(again.stderr, /there is no suspended volume claim, group or StatefulSet "data-db-zone-a-2"/);
  });

  test("past the point of no return the request is refused, with how to save the volume; a group's name means all its volumes", async () => {
    const body = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: {
        name: "data-db-zone-a-7",
        finalizers: ["sluice.dev/volume-hold"],
        annotations: { "sluice.dev/hold": "true" },
      },
      spec: { volumeName: "pv-7", accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    };
    await api.post(claims, body);
    await api.delete(`${claims}/data-db-zone-a-7`, {});
    const late = await sluice("recover db-zone-a");
    assert.deepEqual([late.code, late.stdout], [1, ""]);
    assert.match(late.stderr, /data-db-zone-a-7: it is too late: .*kubectl patch pv pv-7 -p/);
    const { metadata } = await api.get<Seen>(`${claims}/data-db-zone-a-7`);
    assert.equal(metadata.annotations?.["sluice.dev/recover"], undefined, "nothing is written");
    assert.equal((await sluice("recover")).code, 2);
  });
});
