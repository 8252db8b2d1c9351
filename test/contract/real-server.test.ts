/** Cases that only a real API server can pass: rights, schemas and pages, which the fake cluster lacks. */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { connect, type KubernetesCluster } from "../../functions/shared/kubernetes/client.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import type { Reservation } from "../../functions/shared/ledger/reservation.ts";
import { waitForLedger, writeChange } from "../../functions/shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../../functions/shared/transaction/observe-group.ts";
import { Api } from "../controlplane/api.ts";
import { KUBERNETES, wantedKubernetes } from "../controlplane/assets.ts";
import { type ControlPlane, findAssets, startControlPlane } from "../controlplane/controlplane.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { rejection } from "../support/rejection.ts";
import { grantNormalRights, replaceNode } from "./node-deletion.ts";

const userAgent = "sluice/0.0.0 (real-server)";
const namespace = "default";
const assets = await findAssets();
const skip = assets === undefined && process.env.CI !== "true" ? "no binaries of a real API server" : false;
if (skip) console.error("\n  *** NOT tested against a real API server: its binaries are missing.\n");

describe("real API server only", { skip }, () => {
  let controlPlane: ControlPlane;
  let cluster: KubernetesCluster;
  let api: Api;
  let directory: string;

  before(async () => {
    if (assets === undefined)
      throw new Error("the real API server's binaries are missing, and in CI they must be there");
    controlPlane = await startControlPlane({ assets, podsReadyAfterMs: 100 });
    cluster = await connect({ userAgent, kubeconfig: controlPlane.kubeconfig });
    api = await Api.open(controlPlane, { userAgent: "sluice-test-contract", connections: 4 });
    directory = await mkdtemp(join(tmpdir(), "sluice-contract-"));
  });
  after(async () => {
    await Promise.all([cluster?.close(), api?.close()]);
    await controlPlane?.stop();
    if (directory !== undefined) await rm(directory, { recursive: true });
  });

  test("is ready, and reports when it is not", async () => {
    const [major, minor] = KUBERNETES[wantedKubernetes()].version.split(".");
    const reported = await cluster.ready();
    assert.deepEqual([reported.major, reported.minor], [major, minor]);
    assert.equal(cluster.namespace, "default");
  });

  test("an operation without the right is 403 Forbidden, with verb and resource", async () => {
    const poor = await connectAsServiceAccount("poor");
    try {
      const error = await rejection(poor.list("pods", { namespace }));
      assert.deepEqual([error.code, error.reason, error.verb], [403, "Forbidden", "list"]);
      assert.match(error.message, /serviceaccount:default:poor" cannot list resource "pods" in API group ""/);
      const key = { namespace, name: "web" };
      const patch = await rejection(poor.patch("statefulsets", key, { metadata: { annotations: { a: "1" } } }));
      assert.match(patch.message, /cannot patch resource "statefulsets" in API group "apps"/);
      const watch = poor.watch("pods", { namespace, resourceVersion: "1" })[Symbol.asyncIterator]();
      assert.equal((await rejection(watch.next())).code, 403);
      await poor.ready();
    } finally {
      await poor.close();
    }
  });

  test("a token that the API server does not know is 401 Unauthorized", async () => {
    const foreign = await connectWithToken("foreign", "not-a-token");
    try {
      const error = await rejection(foreign.list("pods", { namespace }));
      assert.deepEqual([error.code, error.reason], [401, "Unauthorized"]);
    } finally {
      await foreign.close();
    }
  });

  test("a certificate of another authority is refused before anything is sent", async () => {
    const kubeconfig = join(directory, "other-authority");
    await writeKubeconfig(kubeconfig, "token", undefined);
    const wary = await connect({ userAgent, kubeconfig, requestTimeoutMs: 5_000 });
    try {
      const error = await rejection(wary.ready());
      assert.equal(error.code, 0);
      assert.match(error.message, /certificate/);
    } finally {
      await wary.close();
    }
  });

  test("names and values are validated: 422 Invalid", async () => {
    const error = await rejection(cluster.create("leases", namespace, { metadata: { name: "Not_A_Name" } }));
    assert.deepEqual([error.code, error.reason], [422, "Invalid"]);
    const negative = { metadata: { name: "lease" }, spec: { leaseDurationSeconds: -1 } };
    assert.equal((await rejection(cluster.create("leases", namespace, negative))).code, 422);
  });

  test("long lists come in pages, complete and of one revision, and later pages need no further rights", async () => {
    const count = 1_100;
    const indices = Array.from({ length: count }, (_, index) => index);
    const workers = Array.from({ length: 8 }, async () => {
      for (let index = indices.pop(); index !== undefined; index = indices.pop()) {
        await cluster.create("leases", namespace, { metadata: { name: `page-${index}`, labels: { paged: "yes" } } });
      }
    });
    await Promise.all(workers);
    const paths: string[] = [];
    const counting = await connect({
      userAgent,
      kubeconfig: controlPlane.kubeconfig,
      onRequest: ({ path, statusCode }) => paths.push(`${path} ${statusCode}`),
    });
    try {
      const query = { namespace, labelSelector: "paged=yes" };
      const { items, resourceVersion } = await counting.list("leases", query);
      assert.equal(new Set(items.map(({ metadata }) => metadata.name)).size, count);
      assert.deepEqual(paths, Array(3).fill("coordination.k8s.io/v1/leases collection 200"));
      const again = await counting.list("leases", { ...query, notOlderThan: resourceVersion });
      assert.equal(again.items.length, count);
      assert.ok(BigInt(again.resourceVersion) >= BigInt(resourceVersion));
    } finally {
      await counting.close();
    }
  });

  test("watches and calls survive a restart of the API server, and GETs are retried meanwhile", async () => {
    const { metadata } = await cluster.create("leases", namespace, { metadata: { name: "survivor" } });
    const watch = cluster.watch("leases", { namespace, resourceVersion: metadata.resourceVersion });
    const iterator = watch[Symbol.asyncIterator]();
    const ended = iterator.next().then(
      ({ done }) => (done ? "ended" : "an event"),
      ({ code }) => code,
    );
    await cluster.sleep(100);
    await controlPlane.restartApiServer();
    assert.ok([0, "ended"].includes(await ended));
    const again = await cluster.get("leases", { namespace, name: "survivor" });
    assert.equal(again.metadata.uid, metadata.uid);
  });

  test("ledger-refused, ledger-full: a Lease that other clients have filled blocks no function, and the guard has the API server's message", async () => {
    const ledgerKey = { namespace, group: "filled" };
    const made = await protocol.createLedger(cluster, ledgerKey);
    assert.ok(made !== undefined);
    const lease = { namespace, name: made.name };
    const { annotations = {} } = (await cluster.get("leases", lease)).metadata;
    const taken = Object.entries(annotations).flat().join("").length;
    const theirs = "x".repeat(256 * 1024 - taken - "theirs".length);
    await cluster.patch("leases", lease, { metadata: { annotations: { theirs } } });
    const ledger = await protocol.readLedger(cluster, ledgerKey);
    const context = { cluster, protocol, memoryOf: createMemory() } as unknown as Context;
    const guardOf = async (reservations: readonly Reservation[]) => {
      const change = { reservations, seenThrough: 1, membersThrough: 1, refusals: [], verdicts: {} };
      const observed = { key: ledgerKey, ledger } as unknown as GroupObservation;
      const failed = await writeChange(context, observed, change).then(() => undefined, waitForLedger);
      return [failed?.guard, failed?.message] as const;
    };
    const [full] = await guardOf([{ statefulSet: "a", ordinal: 0, uid: "u", by: "test", stampMs: 1 }]);
    assert.equal(full, "ledger-full");
    const [refused, message] = await guardOf([]);
    assert.equal(refused, "ledger-refused");
    assert.match(message ?? "", /with 422: Lease\S* "sluice-filled" is invalid: metadata\.annotations: Too long: /);
  });

  test("not-permitted: a Node of the strategy node-deletion stays without the right, and with it is deleted and made again", async () => {
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "sluice-fencing" } });
    const limited = await connectAsServiceAccount("fencing");
    try {
      await grantNormalRights(api, "fencing");
      await replaceNode(cluster, limited);
    } finally {
      await limited.close();
    }
  });

  async function connectAsServiceAccount(name: string): Promise<KubernetesCluster> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await api.post(path, { apiVersion: "v1", kind: "ServiceAccount", metadata: { name } });
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
    const answer = await api.request<{ status: { token: string } }>("POST", `${path}/${name}/token`, request);
    return await connectWithToken(name, answer.status.token);
  }

  async function connectWithToken(name: string, token: string): Promise<KubernetesCluster> {
    const kubeconfig = join(directory, name);
    await writeKubeconfig(kubeconfig, token, controlPlane.caFile);
    return await connect({ userAgent, kubeconfig });
  }

  function writeKubeconfig(path: string, token: string, caFile: string | undefined): Promise<void> {
    const authority = caFile === undefined ? {} : { "certificate-authority": caFile };
    return writeFile(path, kubeconfigText(controlPlane.url, { token }, undefined, authority));
  }
});
