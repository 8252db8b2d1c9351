/**
 * A person marks a pod, and its process restarts: the shipped function and the shipped process manager as processes of their own,
 * on a real API server. The kubelet there is played, and the process is one that keeps a journal.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { packagesForTests } from "../support/packages.ts";
import { podNamesIn } from "../support/pod-names.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { patienceMs } from "./pod.ts";
import { ServedPod, token } from "./served-pod.ts";
import { type RunnerShell, runnerShells } from "./shells.ts";

const packages = await packagesForTests();
const skip = packages === undefined || (await skipWithoutControlPlane());
const namespace = "search";
const podPath = `/api/v1/namespaces/${namespace}/pods/db-zone-a-0`;
const phase = "elasticsearch.k8s.elastic.co/restart-phase";

suite("a process that restarts inside its pod", { skip }, () => {
  let names: string;
  let controlPlane: ControlPlane;
  let api: Api;
  let one: ServedPod;
  let server: Server;

  before(async () => {
    if (packages === undefined) return;
    names = await mkdtemp(join(tmpdir(), "sluice-names-"));
    const [shell] = await runnerShells(packages);
    one = await ServedPod.make(shell as RunnerShell);
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-restart" });
    const annotations = {
      "sluice.dev/restart-manager": `http://:${one.port}`,
      "sluice.dev/restart-manager-secret": "db-token",
      "sluice.dev/restart-database": "none",
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200" };
    const group = await createGroup(controlPlane, {
      name: "db",
      namespace,
      zones: 1,
      pods: 1,
      annotations,
      podAnnotations,
    });
    await waitForGroupReady(controlPlane, group);
    await api.post(`/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name: "db-token" },
      stringData: { token },
    });
    const { metadata } = await read();
    await writeFile(join(names, `db-zone-a-0.db-zone-a.${namespace}.svc.cluster.local`), "127.0.0.1");
    await writeFile(join(names, `db-zone-a-0.db.${namespace}.svc.cluster.local`), "127.0.0.1");
    one.pod.start();
    one.launchServer({ POD_UID: metadata.uid });
    await one.reached("started");
    const settings = { FUNCTION: "advance-process-restart", NODE_OPTIONS: podNamesIn(names) };
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings });
  });

  after(async () => {
    await server?.kill();
    await api?.close();
    await controlPlane?.stop();
    await one?.remove();
    if (names !== undefined) await rm(names, { recursive: true, force: true });
  });

  const read = () => api.get<{ readonly metadata: Metadata }>(podPath);
  const mark = (value: string) => api.patch(podPath, { metadata: { annotations: { [phase]: value } } });
  const withoutPhase = () =>
    eventually("the end of the restart", patienceMs * 3, async () => {
      const { annotations = {} } = (await read()).metadata;
      return annotations[phase] === undefined ? true : undefined;
    });

  test("it stops and starts again once, with the files of now, in the same pod, and nothing of the restart is left", async () => {
    const { uid } = (await read()).metadata;
    await one.pod.mount({ "db.yml": "second" });
    await mark("schedule");
    await withoutPhase();
    assert.deepEqual(await one.pod.journal(), ["start first", "stop", "start second"]);
    const { metadata } = await read();
    assert.deepEqual([metadata.uid, metadata.annotations?.["sluice.dev/restart-id"]], [uid, undefined]);
    const lease = await api.get<{ readonly metadata: Metadata }>(
      `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-db`,
    );
    assert.equal(lease.metadata.annotations?.["sluice.dev/claims"] ?? "", "");
    assert.equal((await one.status()).lastEpoch, 2);
  });

  test("a second restart goes on from the epochs of the first", async () => {
    await mark("schedule");
    await withoutPhase();
    assert.equal((await one.pod.journal()).filter((line) => line.startsWith("start")).length, 3);
    assert.equal((await one.status()).lastEpoch, 4);
  });
});
