/** `kubectl scale` of StatefulSets whose pods are told before they leave, on a real control plane, with pods that answer. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, type FixtureGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { createAuthority } from "../support/certificates.ts";
import { Ingesters } from "../support/ingester.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const statefulSets = "/apis/apps/v1/namespaces/default/statefulsets";
const webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const configuration = "prepare-downscale-default";

/** As rollout-operator's users have it, but by address: there is no Service here. */
function registration(port: number, ca: string): object {
  const webhook = {
    name: `${configuration}.grafana.com`,
    clientConfig: {
      url: `https://127.0.0.1:${port}/admission/prepare-downscale`,
      caBundle: Buffer.from(ca).toString("base64"),
    },
    rules: [
      {
        apiGroups: ["apps"],
        apiVersions: ["v1"],
        operations: ["UPDATE"],
        resources: ["statefulsets", "statefulsets/scale"],
        scope: "Namespaced",
      },
    ],
    admissionReviewVersions: ["v1"],
    failurePolicy: "Fail",
    sideEffects: "NoneOnDryRun",
  };
  const apiVersion = "admissionregistration.k8s.io/v1";
  const metadata = { name: configuration };
  return { apiVersion, kind: "MutatingWebhookConfiguration", metadata, webhooks: [webhook] };
}

describe("downscales are prepared on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let folder: string;
  let server: Server;
  let ingesters: Ingesters;
  let group: FixtureGroup;
  const following = new AbortController();
  let followed: Promise<void>;

  const scale = (name: string, replicas: number, ...args: string[]): Promise<{ code: number; output: string }> =>
    new Promise((resolve) => {
      const given = ["scale", "statefulset", name, `--replicas=${replicas}`, ...args];
      execFile(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, ...given], (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : 1, output: stdout + stderr }),
      );
    });
  const posts = () => ingesters.calls.filter(({ method }) => method === "POST").map(({ pod }) => pod);

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-prepare" });
    folder = await mkdtemp(join(tmpdir(), "sluice-prepare-"));
    const authority = await createAuthority();
    const { cert, key } = await authority.issue();
    await Promise.all([writeFile(join(folder, "tls.crt"), cert), writeFile(join(folder, "tls.key"), key)]);
    ingesters = await Ingesters.open();
    followed = ingesters.followPods(api, "default", following.signal);
    const labels = { "grafana.com/prepare-downscale": "true", "grafana.com/min-time-between-zones-downscale": "1h" };
    const annotations = {
      "grafana.com/prepare-downscale-http-path": "ingester/prepare-shutdown",
      "grafana.com/prepare-downscale-http-port": String(ingesters.port),
      // Longer ago than the time between zones.
      "grafana.com/last-downscale": "2026-01-01T00:00:00Z",
    };
    group = await createGroup(controlPlane, { name: "ingester", zones: 2, pods: 3, labels, annotations });
    await waitForGroupReady(controlPlane, group);
    const settings = {
      TLS_PORT: "0",
      TLS_CERT_FILE: join(folder, "tls.crt"),
      TLS_KEY_FILE: join(folder, "tls.key"),
      NODE_OPTIONS: ingesters.nodeOptions,
    };
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace: "default", settings });
    await server.ready();
    const port = Number(server.log.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort);
    await api.post(webhooks, registration(port, authority.cert));
    // The API server learns of the webhook a moment later: from then on this one is refused, which has no port.
    const probe = await createGroup(controlPlane, { name: "probe", zones: 1, pods: 1, labels });
    const [name = ""] = probe.statefulSets;
    await eventually("the webhook called", 30_000, async () => {
      await scale(name, 1);
      const { output } = await scale(name, 0);
      return output.includes("grafana.com/prepare-downscale-http-port") ? true : undefined;
    });
  });

  after(async () => {
    following.abort();
    await followed?.catch(() => undefined);
    await server?.stop();
    await ingesters?.close();
    await api?.close();
    await controlPlane?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  test("a dry run calls no pod; a scale has its pods told; the next zone waits, and is told until when", async () => {
    const [one = "", other = ""] = group.statefulSets;
    assert.equal((await scale(one, 2, "--dry-run=server")).code, 0);
    assert.deepEqual(posts(), []);
    // A new ledger waits for ten seconds, and the API server learns of the webhook a moment later.
    await eventually("the ledger old enough", 30_000, async () => {
      const { code, output } = await scale(one, 2);
      return code === 0 || !/ledger-new|is new/.test(output) ? output : undefined;
    });
    assert.deepEqual(posts(), [`${one}-2`]);
    const read = () =>
      api.get<{ spec: { replicas: number }; metadata: { annotations: object } }>(`${statefulSets}/${one}`);
    assert.equal((await read()).spec.replicas, 2);
    const refused = await eventually("the next zone waits for the time alone", 30_000, async () => {
      const { code, output } = await scale(other, 2);
      assert.equal(code, 1, output);
      return output.includes("the time between two zones is 3600 s: try again after") ? output : undefined;
    });
    assert.match(refused, new RegExp(`${one} was made smaller at`));
    assert.deepEqual(posts(), [`${one}-2`]);
  });
});
